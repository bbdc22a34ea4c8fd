"""Stateful parts of capture, and the order of its steps."""
