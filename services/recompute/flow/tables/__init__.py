"""The replicas of the tables that queries read."""
