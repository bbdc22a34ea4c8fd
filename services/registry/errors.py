"""What the registry refuses (V56 gives the words), and what stops it."""


class SubscriptionRefused(Exception):
    """A subscription that is refused; the message is for the client."""

    sqlstate = "53400"


class LimitExceeded(SubscriptionRefused):
    def __init__(self, whose: str, count: int, limit: int) -> None:
        super().__init__(f"{whose} limit exceeded: {count} subscriptions (max: {limit})")
        self.whose, self.count, self.limit = whose, count, limit


class RateLimited(SubscriptionRefused):
    def __init__(self, wait_ms: int) -> None:
        super().__init__(f"Rate limited: retry after {wait_ms}ms")
        self.wait_ms = wait_ms


class TooLarge(SubscriptionRefused):
    sqlstate = "54000"

    def __init__(self, what: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"{what} too large: {size_bytes} bytes (max: {limit_bytes})")
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class Unreadable(SubscriptionRefused):
    """Our lexer or parser failed on the text in an unexpected way."""

    sqlstate = "XX000"

    def __init__(self, error: Exception) -> None:
        super().__init__(f"the statement could not be read ({type(error).__name__})")


class Superseded(Exception):
    """The partition of `commands` went to another registry before all was written; that one carries it out again."""


class Crashed(Exception):
    """Faust gave up; only a new start helps."""

    exit_code, retry = 1, True

    def __init__(self, reason: str) -> None:
        super().__init__(f"the stream of commands crashed ({reason}): start again")
