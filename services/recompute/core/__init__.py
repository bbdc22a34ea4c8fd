"""Pure decisions of recompute: no IO, no clock, no log."""
