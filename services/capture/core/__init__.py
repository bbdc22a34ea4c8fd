"""What capture decides, without touching anything."""
