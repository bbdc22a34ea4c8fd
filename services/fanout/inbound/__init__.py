"""What wakes fanout."""
