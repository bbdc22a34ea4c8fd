"""What stops fanout: nothing of its own yet; Kafka's errors are the chassis's."""
