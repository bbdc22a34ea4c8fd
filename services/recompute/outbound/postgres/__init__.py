"""What recompute asks PostgreSQL for."""
