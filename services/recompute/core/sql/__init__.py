"""PostgreSQL's rewritten tree as Spark SQL."""
