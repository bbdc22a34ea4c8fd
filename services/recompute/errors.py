"""What stops recompute."""


class HistoryEnded(Exception):
    """The log lost its continuity: what was derived from it must be taken anew."""

    exit_code, retry = 1, True

    def __init__(self, history: int, because: str) -> None:
        super().__init__(f"history {history} of `changes` began ({because}): start again from the database")
        self.history = history
