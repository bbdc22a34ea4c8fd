"""Pure decisions of capture: no IO, no clock, no log."""
