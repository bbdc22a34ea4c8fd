"""What recompute refuses, and what stops it."""


class NotSupported(Exception):
    """A query that this version does not keep; the subscriber learns why."""

    sqlstate = "0A000"

    def __init__(self, what: str) -> None:
        super().__init__(f"not supported yet: {what}")
        self.what = what


class RelationMissing(Exception):
    """The table is not there, or is not called so any more."""

    sqlstate = "42P01"

    def __init__(self, table: str) -> None:
        super().__init__(f"Execution error: table '{table}' does not exist")
        self.table = table


class HistoryEnded(Exception):
    """The log lost its continuity: what was derived from it must be taken anew."""

    exit_code, retry = 1, True

    def __init__(self, history: int, because: str) -> None:
        super().__init__(f"history {history} of `changes` began ({because}): start again from the database")
        self.history = history


class FencedOff(Exception):
    """Another worker took the partition over."""

    exit_code, retry = 1, True

    def __init__(self, partition: int, epoch: int) -> None:
        super().__init__(f"partition {partition} of `deltas` is fenced off above epoch {epoch}: start again")
        self.partition, self.epoch = partition, epoch
