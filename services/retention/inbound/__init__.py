"""What retention reads."""
