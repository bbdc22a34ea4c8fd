"""What recompute reads: queries and changes."""
