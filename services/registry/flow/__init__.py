"""Stateful parts of the registry, and the order of its steps."""
