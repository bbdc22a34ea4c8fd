"""What recompute touches."""
