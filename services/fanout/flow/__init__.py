"""Stateful parts of fanout, and the order of its steps."""
