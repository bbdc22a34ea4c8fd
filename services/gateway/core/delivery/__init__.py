"""Which subscription is sent which change: records of `deliveries` in, effects out, and no wire format."""
