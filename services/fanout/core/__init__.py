"""What fanout decides."""
