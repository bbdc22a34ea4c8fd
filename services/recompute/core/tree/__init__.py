"""PostgreSQL's rewritten query tree: its text read into types of our own, and what is asked of it."""
