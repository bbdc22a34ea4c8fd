"""What the registry decides."""
