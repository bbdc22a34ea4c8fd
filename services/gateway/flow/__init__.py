"""What holds the gateway's state and decides the order of things."""
