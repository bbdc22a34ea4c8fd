"""What the gateway refuses, and what stops it."""

from enum import Enum

from msgspec import Struct


class RefusalCode(Enum):
    """Why a subscribe was refused or a subscription failed or ended; each door has its own words or numbers for it."""

    PARSE_ERROR = "parse_error"
    FILTER_ERROR = "filter_error"
    LIMIT_EXCEEDED = "limit_exceeded"
    RATE_LIMITED = "rate_limited"
    # The registry refused it before it had a result.
    NOT_REGISTERED = "not_registered"
    # Not a SELECT, a table that does not exist, parameters that do not fit.
    INVALID_QUERY = "invalid_query"
    PERMISSION_DENIED = "permission_denied"
    # Who the client is could not be proven now.
    NOT_PROVEN = "not_proven"
    # PostgreSQL does not answer; the same request may succeed later.
    UNAVAILABLE = "unavailable"
    # The client's session was reset or changed its role while the request was being checked.
    SESSION_CHANGED = "session_changed"
    # No first result in time.
    TIMED_OUT = "timed_out"
    RESULT_TOO_LARGE = "result_too_large"
    # The query fails for now; the subscription lives on.
    QUERY_FAILED = "query_failed"
    # The subscription is over: its table or right is gone, its session was reset, its lease ended.
    ENDED = "ended"
    # The credentials that the subscription was made with are no longer valid.
    CREDENTIALS_EXPIRED = "credentials_expired"


class Refusal(Struct, frozen=True):
    """A code for programs and a sentence for people."""

    code: RefusalCode
    message: str
    # PostgreSQL's, where it was PostgreSQL or the worker that refused.
    sqlstate: str = ""


class SubscribeRefused(Exception):
    """A subscribe request that is not carried out."""

    def __init__(self, code: RefusalCode, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(code, message)

    @property
    def code(self) -> RefusalCode:
        return self.refusal.code

    @property
    def message(self) -> str:
        return self.refusal.message


class ClientRefused(Exception):
    """A client that may not log in; the message is for it."""

    def __init__(self, message: str, *, sqlstate: str = "28000") -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class UpstreamUnreachable(Exception):
    """PostgreSQL does not answer, or not by TLS; the message is for clients, the detail for our own log."""

    sqlstate = "08006"

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail or message


class PortRefused(Exception):
    """The address of the PG port cannot be bound."""

    exit_code, retry = 2, False

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"cannot listen on {host}:{port} ({reason}): set TIDEWIRE_GATEWAY_HOST and TIDEWIRE_GATEWAY_PORT"
        )
        self.host, self.port = host, port


class HttpPortRefused(Exception):
    """The address of the HTTP port cannot be bound."""

    exit_code, retry = 2, False

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(
            f"cannot listen on {host}:{port} ({reason}): set TIDEWIRE_GATEWAY_HTTP_HOST and TIDEWIRE_GATEWAY_HTTP_PORT"
        )
        self.host, self.port = host, port


class LoginRefused(Exception):
    """PostgreSQL did not accept a user and password, or asked for none; the reason is for the log alone."""


class LoginUnknown(Exception):
    """Whether a login or a role is good could not be found out: PostgreSQL did not answer."""


class KeysUnavailable(Exception):
    """The keys that tokens are verified with could not be read."""


class RpcRefused(Exception):
    """A call of the CDC door that is answered with an error (S3); the message is for the caller."""

    def __init__(self, code: str, message: str, *, details: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details or {}


class NotVisibleYet(RpcRefused):
    """DDL that is in the log is not visible to others, as while it waits for a synchronous standby."""

    def __init__(self) -> None:
        super().__init__("timeout", "DDL that is in the log is not visible yet: try again", details={"retry": True})


class CursorsUnavailable(Exception):
    """Subscriptions and cursors cannot be read or written now: nothing is answered from less than all of them."""


class TopicRefused(Exception):
    """A request of the topics door that is answered with an error; the kind decides status and SQLSTATE."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind, self.message = kind, message


class RegistrationsUnknown(Exception):
    """PostgreSQL does not tell what is registered at the NOTIFY door."""
