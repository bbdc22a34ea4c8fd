"""`make demo`: starts the stack, lets a shop sell, and shows its commits and a live query over them as they come."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psycopg

from proto.pgoutput.messages import Row
from proto.streams.changes import BarrierPassed, ChangeEvent, Committed, RowChanged
from services.chassis import barrier
from services.chassis.changes import ChangesFollower
from services.chassis.kafka import Kafka
from services.cli.tail import coloured, line_parts
from services.devstack import control, state
from services.devstack.errors import DevstackFailure
from services.devstack.home import Home
from services.devstack.live_view import Line, LiveView
from services.devstack.settings import load
from services.devstack.shop import SCHEMA, TABLES, Till, open_shop

ONCE_S = 12.0
PAUSE_S = 0.4
LAST_WAIT_S = 30.0


LIVE_QUERY = "SELECT id, customer, status FROM shop.orders WHERE status = 'new'"


class Endpoints(msgspec.Struct):
    postgres: str
    kafka: str
    gateway_pg: str


class Ledger:
    """What the log says the shop's tables must hold now."""

    def __init__(self) -> None:
        self.commits = 0
        self.rows: dict[str, Counter[Row]] = {table: Counter() for table in TABLES}

    def take(self, event: ChangeEvent) -> None:
        if isinstance(event, Committed):
            self.commits += 1
        if isinstance(event, RowChanged) and event.relation.schema == SCHEMA:
            rows = self.rows[event.relation.name]
            if event.operation != "insert":
                rows[self._old(event)] -= 1
            if event.after is not None:
                rows[event.after] += 1
            self.rows[event.relation.name] = +rows

    def _old(self, event: RowChanged) -> Row:
        """The row that was changed: by its whole old image if the log has it, else by its key."""
        columns, before = event.relation.columns, event.before or event.after
        assert before is not None
        key = [at for at, column in enumerate(columns) if column.is_identity]
        return next(row for row in self.rows[event.relation.name] if all(row[at] == before[at] for at in key))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--once", action="store_true", help=f"stop after {ONCE_S:.0f} s and check what was shown")
    once = parser.parse_args(arguments).once
    try:
        with _stack() as endpoints:
            return _show(endpoints, once=once)
    except KeyboardInterrupt:
        return 0
    except DevstackFailure as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return failure.exit_code


@contextmanager
def _stack() -> Iterator[Endpoints]:
    """The running stack, or one that ends with the demo."""
    settings = load(os.environ)
    home = Home(Path(settings.home).absolute())
    ours = state.live(home) is None
    control.up(settings, home, _say)
    try:
        yield msgspec.json.decode(home.endpoints.read_bytes(), type=Endpoints)
    finally:
        if ours:
            control.down(home, _say)


def _show(endpoints: Endpoints, *, once: bool) -> int:
    follower = ChangesFollower(Kafka(bootstrap=endpoints.kafka), client_id="demo")
    follower.from_latest()
    ledger = Ledger()
    try:
        with psycopg.connect(endpoints.postgres, autocommit=True) as connection:
            open_shop(connection)
            _say("the shop sells: a line is a change that PostgreSQL committed; after ▸ stands what a client of")
            _say(f"  {LIVE_QUERY}\ngets from the gateway (Ctrl-C ends)")
            till, view = (
                Till(endpoints.postgres, pause_s=PAUSE_S),
                LiveView(endpoints.gateway_pg, LIVE_QUERY, _show_line),
            )
            with view:
                with till:
                    ends_at = time.monotonic() + ONCE_S if once else float("inf")
                    while time.monotonic() < ends_at:
                        _pass_on(follower.read(0.2), ledger)
                return _check(connection, follower, ledger, till) or _check_live(connection, view)
    finally:
        follower.close()


def _pass_on(events: Iterator[ChangeEvent], ledger: Ledger) -> None:
    for event in events:
        ledger.take(event)
        line = coloured(line_parts(event), sys.stdout.isatty())
        if line:
            _say(line)


def _check(connection: psycopg.Connection, follower: ChangesFollower, ledger: Ledger, till: Till) -> int:
    """Whether what was shown is what PostgreSQL holds, once the log has reached this moment."""
    barrier_id = barrier.emit(connection)
    deadline = time.monotonic() + LAST_WAIT_S
    reached = False
    while not reached:
        if time.monotonic() > deadline:
            print(
                f"demo: the log did not reach the last commit within {LAST_WAIT_S:.0f} s: see `make logs`",
                file=sys.stderr,
            )
            return 1
        events = list(follower.read(0.2))
        reached = any(isinstance(event, BarrierPassed) and event.barrier_id == barrier_id for event in events)
        _pass_on(iter(events), ledger)
    wrong = [table for table in TABLES if ledger.rows[table] != _held(connection, table)]
    if wrong or ledger.commits < till.committed:
        print(f"demo: what was shown is not what PostgreSQL holds ({', '.join(wrong) or 'commits'})", file=sys.stderr)
        return 1
    rows = sum(sum(held.values()) for held in ledger.rows.values())
    _say(f"{till.committed} sales and returns shown; the {rows} rows that they add up to are the ones PostgreSQL holds")
    return 0


def _check_live(connection: psycopg.Connection, view: LiveView) -> int:
    """Whether the client's merged result becomes what PostgreSQL answers, now that nobody writes."""
    rows = connection.execute(LIVE_QUERY.encode()).fetchall()
    wanted = {tuple(str(value).encode() for value in row) for row in rows}
    deadline = time.monotonic() + LAST_WAIT_S
    while set(view.rows.values()) != wanted or view.messages == 0:
        if view.failure or time.monotonic() > deadline:
            print(
                f"demo: the live result is not what PostgreSQL answers: {view.failure or 'too late'}", file=sys.stderr
            )
            return 1
        time.sleep(0.1)
    _say(f"the live result took {view.messages} messages; its {len(wanted)} rows are PostgreSQL's answer")
    return 0


def _held(connection: psycopg.Connection, table: str) -> Counter[Row]:
    connection.execute("SET TimeZone = 'UTC'")
    names = connection.execute(
        "SELECT string_agg(format('%%I::text', attname), ', ' ORDER BY attnum) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
        (f"{SCHEMA}.{table}",),
    ).fetchone()
    assert names is not None
    rows = connection.execute(f"SELECT {names[0]} FROM {SCHEMA}.{table}".encode()).fetchall()
    return Counter(tuple(None if value is None else str(value).encode() for value in row) for row in rows)


def _show_line(parts: Line) -> None:
    _say(coloured(iter(parts), sys.stdout.isatty()))


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
