"""What capture reads: the walsender."""
