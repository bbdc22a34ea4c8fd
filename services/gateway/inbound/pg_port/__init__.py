"""The PostgreSQL port: connections of PostgreSQL clients."""
