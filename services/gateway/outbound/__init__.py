"""What the gateway touches."""
