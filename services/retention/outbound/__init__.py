"""What retention trims."""
