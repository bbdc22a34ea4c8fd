"""What the registry writes."""
