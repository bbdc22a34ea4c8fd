"""PostgreSQL's SQL in Spark's SQL, where both are proven to give the same."""
