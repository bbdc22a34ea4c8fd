"""What a login does to its own tables delays nobody else's results, however often or however much."""

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.security.poison.neighbour import HOSTILE, PoisonedStack

WITHIN_S = 5.0
FLOODED_S = 4.0
UNREAD_ROWS = 200_000
OWN = "flooding"
FLOODS = {
    "rights": (f"GRANT SELECT ON {OWN}.own TO PUBLIC", f"REVOKE SELECT ON {OWN}.own FROM PUBLIC"),
    "columns": (f"GRANT SELECT (id) ON {OWN}.own TO PUBLIC", f"REVOKE SELECT (id) ON {OWN}.own FROM PUBLIC"),
    "functions": (f"CREATE OR REPLACE FUNCTION {OWN}.f() RETURNS int LANGUAGE sql RETURN 1",),
    "policies": (f"CREATE POLICY p ON {OWN}.own USING (true)", f"DROP POLICY p ON {OWN}.own"),
    "deep in a recursion": (f"SELECT {OWN}.deepest()",),
}
DEEP = f"""
CREATE FUNCTION {OWN}.deep(n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF n > 0 THEN PERFORM {OWN}.deep(n - 1); ELSE ALTER TABLE {OWN}.own SET (fillfactor = 50); END IF;
END $$;
CREATE FUNCTION {OWN}.deepest() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    low int := 1;
    high int := 40000;
BEGIN
    WHILE high - low > 1 LOOP
        BEGIN
            PERFORM {OWN}.deep((low + high) / 2);
            low := (low + high) / 2;
        EXCEPTION WHEN statement_too_complex THEN
            high := (low + high) / 2;
        END;
    END LOOP;
END $$;
"""


@pytest.fixture(scope="module")
def hostile_dsn(stack: PoisonedStack) -> Iterator[str]:
    with stack.walk.connect() as admin:
        admin.execute(f"CREATE SCHEMA {OWN} AUTHORIZATION {HOSTILE}")
        dsn = psycopg.conninfo.make_conninfo(stack.walk.dsn, user=HOSTILE, password=HOSTILE)
        with psycopg.connect(dsn, autocommit=True) as hostile:
            hostile.execute(f"CREATE TABLE {OWN}.own (id int PRIMARY KEY, t text)")
            hostile.execute(DEEP)
        yield dsn
        admin.execute(f"DROP SCHEMA {OWN} CASCADE")


class Flood(threading.Thread):
    """One login's statements, as fast as PostgreSQL takes them."""

    def __init__(self, dsn: str, statements: tuple[str, ...]) -> None:
        super().__init__(daemon=True)
        self._dsn, self._statements = dsn, statements
        self.over, self.sent = threading.Event(), 0

    def run(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self.over.is_set():
                for statement in self._statements:
                    connection.execute(statement)
                    self.sent += 1


@pytest.mark.parametrize("statements", FLOODS.values(), ids=FLOODS)
def test_a_flood_of_commands_on_ones_own_table_puts_nobody_s_query_in_doubt(stack, neighbour, hostile_dsn, statements):
    neighbour.change_s(WITHIN_S)
    pids, planned = stack.pids(), stack.log("recompute").count('"query_planned"')
    flood = Flood(hostile_dsn, statements)
    flood.start()
    until_s = time.monotonic() + FLOODED_S
    while time.monotonic() < until_s:
        neighbour.change_s(WITHIN_S)
    flood.over.set()
    flood.join()
    neighbour.change_s(WITHIN_S)
    assert flood.sent
    assert stack.log("recompute").count('"query_planned"') == planned
    assert (stack.ended(), stack.pids()) == ([], pids)


def test_a_large_transaction_that_nobody_reads_delays_nobody(stack, neighbour, hostile_dsn):
    with psycopg.connect(hostile_dsn, autocommit=True) as hostile:
        for statement in (
            f"INSERT INTO {OWN}.own SELECT n, md5(n::text) FROM generate_series(1, {UNREAD_ROWS}) n",
            f"DELETE FROM {OWN}.own",
        ):
            neighbour.change_s(WITHIN_S)
            hostile.execute(statement)
            neighbour.change_s(WITHIN_S)
    assert stack.ended() == []
