"""What capture touches: the log and the watched database."""
