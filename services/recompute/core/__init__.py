"""What recompute decides."""
