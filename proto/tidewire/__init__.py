"""The records of the Kafka topics, one Protocol Buffers file a topic."""
