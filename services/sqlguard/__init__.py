"""Which SQL of subscribers may run, and the entrance in which PostgreSQL runs it."""
