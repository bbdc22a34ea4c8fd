"""The routes of durable topics: they follow `changes` by a loop of their own and write user topics, exactly once."""
