"""What the gateway refuses, and what stops it."""


class SubscribeRefused(Exception):
    """A Subscribe that gets SubscriptionError alone; `numbered` says whether under an id of its own (decision 5)."""

    def __init__(self, message: str, *, numbered: bool) -> None:
        super().__init__(message)
        self.message, self.numbered = message, numbered


class ClientRefused(Exception):
    """A client that may not come in; the words are for it."""

    def __init__(self, message: str, *, sqlstate: str = "28000") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class PortRefused(Exception):
    """The address of the PG port cannot be bound."""

    exit_code, retry = 2, False

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"cannot listen on {host}:{port} ({reason}): set TIDEWIRE_GATEWAY_HOST and TIDEWIRE_GATEWAY_PORT"
        )
        self.host, self.port = host, port
