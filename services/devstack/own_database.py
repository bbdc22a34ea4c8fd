"""Checks before a stack is started around the user's own database: is it fit, and may we install into it."""

from collections.abc import Callable

import psycopg

from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.cli import doctor
from services.devstack.errors import DatabaseNotFit, NotAsked

INSTALLED = """
Tidewire will put into this database: the schema _tidewire, the publications tidewire and tidewire_00 to _31, six event
triggers (as a superuser), the replication slot tidewire, a login without rights (tidewire_runner_…), and on tables that
need it a replica identity. `make down` leaves all of it there, and the slot keeps WAL for as long as it exists;
`make uninstall DSN=…` takes it out and sets the identities back."""
NOT_ASKED = "nothing was installed: run it again with YES=1 (`--yes`) if what stands above may be put into the database"


def examine(dsn: str, *, agreed: bool, ask: Callable[[str], bool] | None, say: Callable[[str], None]) -> None:
    """Print what doctor finds; raise unless the database can be watched and the user agrees to what is installed.

    `ask` puts a question to the user; None where nobody is there to answer.
    """
    try:
        say(f"doctor looks at {Postgres(dsn=dsn).address}")
        if doctor.run(dsn, as_json=False) != 0:
            raise DatabaseNotFit("the database cannot be watched yet: do what stands above, then run this again")
        if agreed or _is_installed(dsn):
            return
    except ValueError as error:
        raise DatabaseNotFit("DSN is not a connection string: write postgresql://user@host:port/database") from error
    except (PostgresUnreachable, PostgresRefused, psycopg.Error) as error:
        raise DatabaseNotFit(str(error)) from error
    say(INSTALLED)
    if ask is None or not ask("install it? [y/N] "):
        raise NotAsked(NOT_ASKED)


def _is_installed(dsn: str) -> bool:
    with connect(Postgres(dsn=dsn), application_name="tidewire up") as connection:
        row = connection.execute(
            "SELECT to_regnamespace('_tidewire') IS NOT NULL AND EXISTS"
            " (SELECT FROM pg_publication WHERE pubname = 'tidewire')"
        ).fetchone()
    assert row is not None
    return bool(row[0])
