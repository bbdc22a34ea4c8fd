"""PostgreSQL: the [postgres] section and connections to it."""

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

TIMEOUT_S = 10
# libpq gives no SQLSTATE for a refused connection, only the server's words. In another language than English the
# refusal is taken for an outage, which is retried and shown with the same words.
REFUSALS = (
    "password authentication failed",
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "is not permitted to log in",
    "permission denied",
    "must be superuser or replication role",
    "certificate verify failed",
    "root certificate file",
    "server does not support SSL",
)
# A server that is starting speaks of its own absence too: the socket file that "does not exist" yet.
OUTAGES = ("No such file or directory", "Connection refused", "starting up", "shutting down", "in recovery mode")


class Postgres(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [postgres] section."""

    dsn: str
    # Besides superusers and the role of the DSN: whose functions may run when a subscribed query calls them.
    trusted_owners: tuple[str, ...] = ()
    # Whether superusers may subscribe; a mistake in a query of theirs is one of a superuser.
    superusers_subscribe: bool = False
    # How the runner logs in where it cannot by the DSN above with a password of its own.
    runner_dsn: str = ""
    # Where no superuser installed Tidewire: let roles subscribe that may create functions too (docs/security.md).
    weaker_isolation: bool = False

    def __post_init__(self) -> None:
        try:
            conninfo_to_dict(self.dsn)
        except psycopg.ProgrammingError:
            # libpq quotes the part it could not read, which may be the password.
            raise ValueError("dsn is not a connection string of libpq: mend TIDEWIRE_POSTGRES_DSN") from None

    def __repr__(self) -> str:
        return f"Postgres(address={self.address!r})"

    @property
    def address(self) -> str:
        """Host, port, database and user, without the password, for messages."""
        parts = conninfo_to_dict(self.dsn)
        shown = (f"{key}={parts[key]}" for key in ("host", "port", "dbname", "user") if parts.get(key))
        return " ".join(shown) or "libpq's defaults"


class PostgresUnreachable(Exception):
    """PostgreSQL does not answer, or not yet."""

    retry = True

    def __init__(self, address: str, detail: str) -> None:
        super().__init__(f"PostgreSQL ({address}) does not answer ({detail}): start it, or set TIDEWIRE_POSTGRES_DSN")
        self.address, self.detail = address, detail


class PostgresRefused(Exception):
    """PostgreSQL answers and refuses the connection."""

    retry = False

    def __init__(self, address: str, detail: str) -> None:
        super().__init__(
            f"PostgreSQL ({address}) refuses the connection ({detail}): "
            "mend user, password or database in TIDEWIRE_POSTGRES_DSN, or allow it in PostgreSQL"
        )
        self.address, self.detail = address, detail


def connect(
    postgres: Postgres, *, application_name: str, autocommit: bool = True, **parameters: str | int
) -> psycopg.Connection:
    """Connect; `parameters` are libpq's and override those of the DSN."""
    try:
        return psycopg.connect(
            postgres.dsn,
            autocommit=autocommit,
            **{"application_name": application_name, "connect_timeout": TIMEOUT_S, **parameters},  # type: ignore[arg-type]
        )
    except psycopg.OperationalError as error:
        raise failure(postgres, str(error)) from error


def failure(postgres: Postgres, words: str) -> PostgresUnreachable | PostgresRefused:
    """The error for a connection that libpq could not make, from its words; of use to any driver over libpq."""
    detail = "; ".join(line.strip() for line in words.splitlines() if line.strip())
    password = conninfo_to_dict(postgres.dsn).get("password")
    if password:
        detail = detail.replace(str(password), "***")
    refused = any(phrase in detail for phrase in REFUSALS) and not any(phrase in detail for phrase in OUTAGES)
    return (PostgresRefused if refused else PostgresUnreachable)(postgres.address, detail)
