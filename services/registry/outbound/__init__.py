"""What the registry touches."""
