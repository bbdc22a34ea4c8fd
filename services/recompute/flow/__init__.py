"""Stateful parts of recompute, and the order of their steps."""
