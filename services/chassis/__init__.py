"""What each process needs and none owns: settings, logs, metrics, health, a graceful end, and connections."""
