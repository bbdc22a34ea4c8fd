"""`tidewire install`: a superuser's part of watching a database, done once, so that no service needs to be one."""

from collections.abc import Iterable, Iterator
from enum import Enum

from psycopg import sql
from psycopg.pq import Escaping
from rich.console import Console

from services.capture.outbound import watch
from services.capture.outbound.watch import Connection, one
from services.chassis.postgres import Postgres, connect

# Functions that a version of Tidewire may lack are left out.
_BARRIER = "_tidewire.barrier(text)"
# Of the NOTIFY door.
_REGISTRATIONS = ("_tidewire.registered(text)", "_tidewire.reactive_setting(text, text)")
_ENTRANCE = (
    "_tidewire.admit(int,text,text,boolean)",
    "_tidewire.runner_login(text,text)",
    "_tidewire.runner_name()",
)


class Duty(Enum):
    """What a service's role is for; each gets what its service does and nothing else."""

    CAPTURE = "capture"
    RECOMPUTE = "recompute"
    GATEWAY = "gateway"


FUNCTIONS = {
    Duty.CAPTURE: ("_tidewire.waiting()", "_tidewire.adopt(oid)", _BARRIER),
    Duty.RECOMPUTE: (
        _BARRIER,
        *_REGISTRATIONS,
        "_tidewire.unregister(text, bigint)",
        *_ENTRANCE,
        "_tidewire.bury_change(text,int,bigint,text,bytea)",
    ),
    Duty.GATEWAY: (_BARRIER, *_REGISTRATIONS, *_ENTRANCE, "_tidewire.topic_mirror(jsonb)"),
}
STATEMENTS = {
    Duty.CAPTURE: (
        "ALTER ROLE {role} REPLICATION",
        "GRANT CREATE ON DATABASE {database} TO {role}",
        "GRANT SELECT, UPDATE ON _tidewire.capture TO {role}",
    ),
    # It copies whole tables; whom their rows are shown to is decided for each query.
    Duty.RECOMPUTE: (
        "ALTER ROLE {role} BYPASSRLS",
        "GRANT pg_read_all_data TO {role}",
        "GRANT pg_signal_backend TO {role}",
    ),
    Duty.GATEWAY: (
        # To end a subscriber's query that does not stop at its timeout.
        "GRANT pg_signal_backend TO {role}",
        # When a role was last altered; not its password.
        "GRANT SELECT (oid, xmin) ON pg_catalog.pg_authid TO {role}",
        "GRANT SELECT ON _tidewire.topics, _tidewire.topic_routes TO {role}",
    ),
}


class RoleMissing(Exception):
    """A role was named that does not exist, and no password to make it with."""

    exit_code, retry = 2, False

    def __init__(self, role: str) -> None:
        super().__init__(f"role {role!r} does not exist: create it, or set SERVICES_PASSWORD to have it made")
        self.role = role


def run(dsn: str, roles: dict[Duty, str], password: str | None) -> int:
    """Install, give each role its rights, and print what was done."""
    console = Console(highlight=False)
    with connect(Postgres(dsn=dsn), application_name="tidewire install") as connection:
        installed = watch.install(connection)
        console.print(f"watched in the {installed.mode.value} mode; {installed.pending} tables wait for a lock")
        for reason in installed.reasons:
            console.print(f"  {reason}", soft_wrap=True)
        for duty, role in roles.items():
            _make(connection, role, password)
            for statement in _grants(connection, duty, role):
                connection.execute(statement)
            console.print(f"role {role} may do what {duty.value} needs")
    return 0


def _make(connection: Connection, role: str, password: str | None) -> None:
    """Create the role or renew its password; the server hears only what it stores of a password."""
    (exists,) = one(connection, "select exists (select from pg_roles where rolname = %s)", role)
    if password is None:
        if not exists:
            raise RoleMissing(role)
        return
    name = sql.Identifier(role)
    if not exists:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
    verifier = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    literal = Escaping(connection.pgconn).escape_literal(verifier)
    connection.execute(sql.SQL("ALTER ROLE {} PASSWORD ").format(name).as_bytes(connection) + bytes(literal))


def _grants(connection: Connection, duty: Duty, role: str) -> Iterator[sql.Composed]:
    names = {"role": sql.Identifier(role), "database": sql.Identifier(connection.info.dbname)}
    yield sql.SQL("GRANT USAGE ON SCHEMA _tidewire TO {role}").format(**names)
    for statement in STATEMENTS[duty]:
        yield sql.SQL(statement).format(**names)
    for function in _present(connection, FUNCTIONS[duty]):
        yield sql.SQL("GRANT EXECUTE ON FUNCTION " + function + " TO {role}").format(**names)


def _present(connection: Connection, functions: Iterable[str]) -> list[str]:
    return [each for each in functions if one(connection, "select to_regprocedure(%s) is not null", each)[0]]
