"""kill -9 of a service inside an entrance: PostgreSQL rolls all of it back, and nothing of ours is left in the way."""

import subprocess
import sys
import time

import psycopg
import pytest
from psycopg import sql

from tests.security.entrance.conftest import Lair

# PostgreSQL looks every five seconds whether a client that it works for is there (client_connection_check_interval).
ROLLED_BACK_WITHIN_S = 15.0
SERVICE = """
import sys, time
from services.chassis.postgres import Postgres
from services.sqlguard.entrance import Deadlines, entered
from services.sqlguard.runners import Runners, Subscriber
dsn, role, query = sys.argv[1:]
runners = Runners(Postgres(dsn=dsn), application_name="killed")
with runners.borrowed(Subscriber(role, role)) as runner:
    with entered(runner, role, Deadlines(600_000, 5_000)) as inside:
        print(runner.connection.info.backend_pid, flush=True)
        inside.rows(query, (), (), columns=1)
        time.sleep(600)
"""


@pytest.mark.parametrize("query", ["SELECT 1", "SELECT pg_sleep(600)"], ids=["between statements", "in a statement"])
def test_kill_9_of_a_service_during_an_entrance_leaves_nothing(lair_dsn: str, query: str):
    with psycopg.connect(lair_dsn, autocommit=True) as admin:
        role = f"victim_{admin.info.backend_pid}"
        admin.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        service = subprocess.Popen([sys.executable, "-c", SERVICE, lair_dsn, role, query], stdout=subprocess.PIPE)
        assert service.stdout is not None
        pid = int(service.stdout.readline())
        until(lambda: is_inside(admin, pid, query), "the service inside the entrance")
        service.kill()
        service.communicate()
        until(lambda: not is_alive(admin, pid), "the backend's end", ROLLED_BACK_WITHIN_S)
        left = admin.execute("SELECT proname FROM pg_proc WHERE proname ~ '^entrance_'").fetchall()
        assert left == []
        # Its entrance is gone, so that nothing of ours stands in the way; whoever enters next clears the list.
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
        lair = Lair(lair_dsn)
        assert lair.rows("SELECT current_user") == [(b"mallory",)]
        assert admin.execute("SELECT FROM _tidewire.runners WHERE pid = %s", [pid]).fetchall() == []
        lair.runners.close()


def is_inside(admin: psycopg.Connection, pid: int, query: str) -> bool:
    wanted = ("active", "PgSleep") if "pg_sleep" in query else ("idle in transaction", "ClientRead")
    found = admin.execute("SELECT state, wait_event FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone()
    return found == wanted


def is_alive(admin: psycopg.Connection, pid: int) -> bool:
    return admin.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone() is not None


def until(condition, what: str, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.05)
