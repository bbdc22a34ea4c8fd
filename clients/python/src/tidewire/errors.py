"""What can go wrong, each with what to do next.

TidewireError
├── ConnectionFailed        no connection, or the one we had is gone
│   └── LogInRefused        the server does not let this user in like this
├── ProtocolViolated        the other side sent what the protocol does not allow
├── ServerError             PostgreSQL's answer to ordinary SQL, with its SQLSTATE
├── SubscriptionRefused     before the first result
└── SubscriptionFailed      after it
"""

from collections.abc import Mapping

from tidewire.retry import Verdict, verdict_of


class TidewireError(Exception):
    """Everything that this package raises on its own account; `retry` says whether the same again may help."""

    retry = False


class ConnectionFailed(TidewireError):
    """There is no connection; `retry` is False where only a change of address, name or password can help."""

    retry = True


class LogInRefused(ConnectionFailed):
    """The server does not let us in, or asks for a proof of identity that we cannot give."""

    retry = False


class ProtocolViolated(TidewireError):
    """Bytes came that are no message, or a message that cannot come here."""


class ServerError(TidewireError):
    """PostgreSQL's ErrorResponse; `fields` has all that it said, by the letters of the protocol's manual page."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.fields = dict(fields)
        self.sqlstate = fields.get("C", "")
        self.severity = fields.get("V") or fields.get("S", "")
        words = fields.get("M", "the server reports an error without words")
        more = "".join(f"\n{name}: {fields[code]}" for code, name in (("D", "DETAIL"), ("H", "HINT")) if code in fields)
        super().__init__(f"{words} (SQLSTATE {self.sqlstate}){more}")

    @property
    def retry(self) -> bool:  # type: ignore[override]
        """Whether it is the server's present state (starting, full, going away) and not what was asked."""
        return self.sqlstate[:2] in ("08", "53", "57", "58") or self.sqlstate in ("40001", "40P01", "55P03")


class SubscriptionRefused(TidewireError):
    """There is no first result: the server's words are in `words`."""

    def __init__(self, words: str, sql: str) -> None:
        super().__init__(f"{words}; {_advice(words)}")
        self.words, self.sql = words, sql
        self.verdict = verdict_of(words)

    @property
    def retry(self) -> bool:  # type: ignore[override]
        return self.verdict is not Verdict.PERMANENT


class SubscriptionFailed(SubscriptionRefused):
    """The live result has ended: what was held stays in `rows`, but nothing will come any more."""


def _advice(words: str) -> str:
    lower = words.lower()
    for sign, advice in _ADVICE:
        if sign in lower:
            return advice
    return "the query can be tried alone by `live.query(…)`, and the gateway's log has more"


_ADVICE = (
    ("filter parse error", "a filter is what may stand after WHERE, over the columns of the result"),
    ("parse error", "correct the query"),
    ("only select", "subscribe to a SELECT, and send other statements by `live.query(…)`"),
    ("permission denied", "let the role SELECT what the query reads, or log in as another"),
    ("does not exist", "correct the name or make what it names, then subscribe again"),
    ("was dropped", "subscribe again to a query over what is there now"),
    ("rate limited", "subscribe more slowly"),
    ("limit exceeded", "leave subscriptions that are not needed, or raise the gateway's limit"),
    ("too large", "narrow the query by WHERE, LIMIT or a filter, or raise the gateway's limit"),
)
