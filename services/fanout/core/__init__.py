"""Pure decisions of fanout."""
