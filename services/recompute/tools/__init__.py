"""Programs beside the service: explain a query, archive Spark's classes."""
