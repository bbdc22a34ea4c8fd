"""What is to be trimmed: pure decisions."""
