"""What recompute calls: Spark, PostgreSQL, Kafka and files."""
