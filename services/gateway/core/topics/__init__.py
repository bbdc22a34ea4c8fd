"""Pure decisions of the topics door."""
