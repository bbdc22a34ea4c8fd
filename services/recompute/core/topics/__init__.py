"""What the routes of durable topics make of a commit: definitions, candidates, payloads and keys."""
