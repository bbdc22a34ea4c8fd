"""What fanout writes."""
