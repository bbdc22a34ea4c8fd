"""What fanout reads."""
