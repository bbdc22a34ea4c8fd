"""What wakes recompute."""
