"""What the registry reads."""
