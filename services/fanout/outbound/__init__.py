"""What fanout touches."""
