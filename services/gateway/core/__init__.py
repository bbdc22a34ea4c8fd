"""What the gateway decides."""
