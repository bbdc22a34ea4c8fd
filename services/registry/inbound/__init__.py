"""What wakes the registry."""
