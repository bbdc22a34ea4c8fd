"""`make demo`: starts the stack, lets a shop sell, and shows its commits beside a live query over them."""

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
import tidewire
from tidewire import SubscriptionSync

from proto.pgoutput.messages import Row
from proto.streams.changes import BarrierPassed, ChangeEvent, Committed, RowChanged
from services.changelog import barrier
from services.changelog.follower import ChangesFollower
from services.chassis.kafka import Kafka
from services.cli.watch_board import Status
from services.devstack import control, credentials, outside, shop_feed, shop_page, state
from services.devstack.errors import DevstackFailure, RunsElsewhere
from services.devstack.home import Home
from services.devstack.live_view import Lines, Screen, View
from services.devstack.settings import load
from services.devstack.shop import REVENUE, SCHEMA, TABLES, Till, open_shop

ONCE_S = 12.0
PAUSE_S = 0.4
LAST_WAIT_S = 30.0
FRAME_S = 0.1


class Endpoints(msgspec.Struct):
    postgres: str
    kafka: str
    gateway_pg: str
    gateway_http: str


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
    if settings.postgres_dsn or (not ours and outside.remembered(home).postgres):
        raise RunsElsewhere("the demo would write into your own database: run it without DSN, after `make down`")
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
            _say(f"the shop is open; a client subscribes to{REVENUE}")
            with (
                tidewire.connect_sync(endpoints.gateway_pg) as live,
                live.subscribe(REVENUE) as revenue,
                _page(connection, endpoints) as address,
            ):
                _say(f"the same table in a browser: {address}")
                till = Till(endpoints.postgres, pause_s=PAUSE_S)
                with _view(revenue, address, once=once) as view, till:
                    ends_at = time.monotonic() + ONCE_S if once else float("inf")
                    while time.monotonic() < ends_at:
                        _pass_on(follower.read(FRAME_S), ledger, view)
                        _pass_on_changes(revenue, view)
                        view.tick(Status(rows=len(revenue.rows), lsn=revenue.lsn, trouble=live.trouble))
                lines = Lines()
                return _check(connection, follower, ledger, till, lines) or _check_live(connection, revenue, lines)
    except tidewire.TidewireError as error:
        print(f"demo: {error}; see `make logs`", file=sys.stderr)
        return 1
    finally:
        follower.close()


@contextmanager
def _page(connection: psycopg.Connection, endpoints: Endpoints) -> Iterator[str]:
    """The shop's live table for browsers, by the TypeScript client; its address."""
    home = Home(Path(load(os.environ).home).absolute())
    token = shop_feed.page_token(credentials.keep(home.root / "credentials.json"))
    shop_feed.grant(connection)
    feed = shop_feed.open_feed(connection, endpoints.gateway_http, token)
    with shop_page.serve(feed, endpoints.gateway_http, token) as address:
        yield address


@contextmanager
def _view(revenue: SubscriptionSync, address: str, *, once: bool) -> Iterator[View]:
    """A screen for people who stay; lines for those who read them later."""
    if once or not sys.stdout.isatty():
        _say("a line is a change that PostgreSQL committed; after ▸ stands what the client is told of it")
        yield Lines()
    else:
        with Screen(REVENUE, revenue.columns, address) as screen:
            yield screen


def _pass_on(events: Iterator[ChangeEvent], ledger: Ledger, view: View) -> None:
    for event in events:
        ledger.take(event)
        view.committed(event)


def _pass_on_changes(revenue: SubscriptionSync, view: View) -> int:
    """What the client has been told since the last time; how many changes there were."""
    count = 0
    while change := revenue.next(FRAME_S / 10):
        count += 1
        view.changed(change, revenue.columns)
    return count


def _check(connection: psycopg.Connection, follower: ChangesFollower, ledger: Ledger, till: Till, view: View) -> int:
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
        _pass_on(iter(events), ledger, view)
    wrong = [table for table in TABLES if ledger.rows[table] != _held(connection, table)]
    if wrong or ledger.commits < till.committed:
        print(f"demo: what was shown is not what PostgreSQL holds ({', '.join(wrong) or 'commits'})", file=sys.stderr)
        return 1
    rows = sum(sum(held.values()) for held in ledger.rows.values())
    _say(f"{till.committed} sales and returns shown; the {rows} rows that they add up to are the ones PostgreSQL holds")
    return 0


def _check_live(connection: psycopg.Connection, revenue: SubscriptionSync, view: View) -> int:
    """Whether the client's merged result becomes what PostgreSQL answers, now that nobody writes."""
    wanted = _answer(connection)
    deadline = time.monotonic() + LAST_WAIT_S
    while sorted(revenue.rows) != wanted:
        if time.monotonic() > deadline:
            print(f"demo: the live result is {sorted(revenue.rows)}, PostgreSQL answers {wanted}", file=sys.stderr)
            return 1
        _pass_on_changes(revenue, view)
    _say("the client's merged result is PostgreSQL's answer: " + ", ".join(" ".join(map(str, row)) for row in wanted))
    return 0


def _answer(connection: psycopg.Connection) -> list[tuple[str | None, ...]]:
    """PostgreSQL's own answer to the live query, in its own text."""
    result = connection.pgconn.exec_(REVENUE.encode())
    values = (tuple(result.get_value(row, column) for column in range(result.nfields)) for row in range(result.ntuples))
    return sorted(tuple(None if value is None else value.decode() for value in row) for row in values)


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


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
