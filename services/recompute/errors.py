"""Errors that end recompute, and errors of single results."""


class HistoryEnded(Exception):
    """A new history began: everything derived from the log must be built again."""

    exit_code, retry = 1, True

    def __init__(self, history: int, because: str) -> None:
        super().__init__(f"history {history} of `changes` began ({because}): start again from the database")
        self.history = history


class ThreadLost(Exception):
    """A thread that others wait for has ended."""

    exit_code, retry = 1, True

    def __init__(self, name: str) -> None:
        super().__init__(f"a thread that does `{name}` has ended: start again")


class RowTooLarge(Exception):
    """A row of a result, or its columns, that no record of Kafka can carry."""

    sqlstate = "54000"

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a row of the result takes {size_bytes} bytes, and at most {limit_bytes} can be sent")
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


def is_of_the_process(error: Exception) -> bool:
    """Whether the error ends or restarts the process, instead of failing the template that was worked on."""
    return hasattr(error, "retry") or hasattr(error, "exit_code")
