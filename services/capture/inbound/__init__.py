"""What wakes capture: the walsender."""
