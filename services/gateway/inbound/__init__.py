"""What wakes the gateway."""
