"""The PostgreSQL wire protocol between client and gateway, and the live messages F0–F7 inside it; no IO."""
