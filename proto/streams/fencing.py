"""Whose records count: one writer at a time, by fences in the log itself."""

from msgspec import Struct


class Writer(Struct, frozen=True, order=True):
    """A writing process: its fencing number, and a random number that tells two with the same epoch apart."""

    epoch: int
    writer: int


class Fencing:
    """The writer in force at a place of the log."""

    def __init__(self) -> None:
        self.in_force: Writer | None = None

    def fence(self, writer: Writer) -> bool:
        """Takes a fence in; False if it is void because an equal or higher one stands before it."""
        if self.in_force is not None and writer.epoch <= self.in_force.epoch and writer != self.in_force:
            return False
        self.in_force = writer
        return True

    def admits(self, writer: Writer) -> bool:
        """Whether a record of this writer counts here.

        A reader that began behind a fence learns of it from the first record of the higher epoch: nobody writes a
        record before its fence is in the log.
        """
        if self.in_force is None or writer.epoch > self.in_force.epoch:
            self.in_force = writer
            return True
        return writer == self.in_force
