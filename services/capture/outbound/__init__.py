"""What capture calls: the log and the watched database."""
