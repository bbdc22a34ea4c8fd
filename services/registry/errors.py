"""What the registry refuses: V56 gives the words."""


class LimitExceeded(Exception):
    sqlstate = "53400"

    def __init__(self, whose: str, count: int, limit: int) -> None:
        super().__init__(f"{whose} limit exceeded: {count} subscriptions (max: {limit})")
        self.whose, self.count, self.limit = whose, count, limit


class Crashed(Exception):
    """Faust gave up; only a new start helps."""

    exit_code, retry = 1, True

    def __init__(self, reason: str) -> None:
        super().__init__(f"the stream of commands crashed ({reason}): start again")
