"""A client that stops reading costs a bounded buffer and nobody else's time, and later gets the net of what it missed.

V22, V23, V57; law 6.
"""

import bisect
import select
import statistics
import time
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest
from msgspec import Struct

from proto.pgwire.live import Selective
from tests.e2e.live.scaled_stack import ScaledStack
from tests.e2e.live.subscriber import LARGE_ROWS, Subscriber
from tests.e2e.live.subscription import Subscription
from tests.e2e.live.writer import Writer
from tests.oracle.case import Question

pytestmark = pytest.mark.slow
ROWS, WIDTH, CHANGES_PER_S = 1000, 1000, 1000
TICKS = Question("SELECT id, n, note FROM ticks")
# Whole rows, so that what a client leaves unread is much.
WHOLE = Selective(enabled=False)
MIB = 1024 * 1024
# What one that does not read may cost: a ring of 4 MiB (`ring_bytes`), the same once as rows and once as messages when
# it reads again, and what its socket has not taken in (64 KiB and the message that went over it). Without a bound it
# would be 2 MB/s, the old row and the new one of each change: 40 MB in the 20 s of the short form.
BOUND_BYTES = 12 * MIB
# A reader's own latency, with and without the slow one beside it, in one run on a machine that others use as well.
MOST_TIMES_SLOWER = 2.0
PATIENCE_S = 120.0


class Arrival(Struct, frozen=True):
    """A value of the writer, and when it came."""

    value: int
    at_s: float


class Watcher:
    """A client of the ticks that notes when each value came."""

    def __init__(self, stack: ScaledStack) -> None:
        self.subscription = Subscription(TICKS, 0, (0,), WHOLE)
        self.client = Subscriber(lambda: stack.gateway_dsn, lambda: 0)
        self.client.want(self.subscription)
        self.arrivals: list[Arrival] = []

    @property
    def newest(self) -> int:
        return max((int(row[1] or 0) for row in self.subscription.rows), default=0)

    def read(self) -> None:
        batches = self.client.batches
        self.client.turn()
        self.client.read()
        if self.client.batches > batches:
            self.arrivals.append(Arrival(self.newest, time.monotonic()))


@pytest.fixture
def ticks(stack: ScaledStack) -> Iterator[psycopg.Connection]:
    with stack.connect() as connection:
        connection.execute("CREATE TABLE ticks (id int PRIMARY KEY, n int NOT NULL, note text NOT NULL)")
        connection.execute(
            "INSERT INTO ticks SELECT id, 0, repeat(chr(97 + id %% 26), %s) FROM generate_series(0, %s) id",
            [WIDTH, ROWS - 1],
        )
        yield connection
        connection.execute("DROP TABLE ticks")


def pump(watchers: list[Watcher], for_s: float, stack: ScaledStack | None = None) -> int:
    """Read for so long; returns the most that the gateway held meanwhile."""
    deadline_s, looked_s, most = time.monotonic() + for_s, 0.0, 0
    while (now_s := time.monotonic()) < deadline_s:
        for one in watchers:
            if not one.client.connected:
                one.read()
        reading = [one.client for one in watchers if one.client.connected]
        ready = select.select(reading, [], [], 0.05)[0] if reading else []
        for one in watchers:
            if one.client in ready or not one.client.has_nothing_to_ask:
                one.read()
        if stack is not None and now_s - looked_s > 0.5:
            looked_s, most = now_s, max(most, stack.pss_bytes("gateway"))
    return most


def until(watchers: list[Watcher], holds, words: str, within_s: float = PATIENCE_S) -> None:
    deadline_s = time.monotonic() + within_s
    while not holds():
        pump(watchers, 0.05)
        assert time.monotonic() < deadline_s, words


def delays_s(watcher: Watcher, writer: Writer, since_s: float, until_s: float) -> list[float]:
    """From the commit of a value until a state that holds it or a later one, for the commits of that time."""
    values = [arrival.value for arrival in watcher.arrivals]
    found = []
    for commit in writer.commits:
        at = bisect.bisect_left(values, commit.value)
        if since_s <= commit.at_s < until_s and at < len(values):
            found.append(watcher.arrivals[at].at_s - commit.at_s)
    return found


def answer(connection: psycopg.Connection) -> list[tuple[bytes, ...]]:
    return sorted(
        tuple(str(value).encode() for value in row) for row in connection.execute("SELECT id, n, note FROM ticks")
    )


def slow_for(stack: ScaledStack, ticks: psycopg.Connection, slow_s: float) -> None:
    fast, slow = Watcher(stack), Watcher(stack)
    until([fast, slow], lambda: all(one.subscription.states for one in (fast, slow)), "the first results")
    slow.client.read_little(65_536)
    with Writer(stack.dsn, ROWS, CHANGES_PER_S) as writer:
        pump([fast, slow], 5.0)  # everyone gets warm
        began_s = time.monotonic()
        base = pump([fast, slow], 10.0, stack)
        stopped_s, changes_before, messages_before = time.monotonic(), writer.changes, slow.subscription.messages
        fast_before = fast.subscription.messages
        most = pump([fast], slow_s, stack)
        again_s, changes = time.monotonic(), writer.changes - changes_before
        fast_told = fast.subscription.messages - fast_before
        goal = fast.newest
        until([fast, slow], lambda: slow.newest >= goal, "the slow reader catches up")
        slow_told, took_s = slow.subscription.messages - messages_before, time.monotonic() - again_s
        pump([fast, slow], 10.0)
        ended_s = time.monotonic()
        last = writer.commits[-1].value
        until([fast, slow], lambda: fast.newest >= last, "the last change")
    final = writer.commits[-1].value
    until([fast, slow], lambda: min(fast.newest, slow.newest) >= final, "the last change")
    alone = delays_s(fast, writer, stopped_s, again_s)
    beside = delays_s(fast, writer, began_s, stopped_s) + delays_s(fast, writer, again_s, ended_s)
    ratio = statistics.median(alone) / statistics.median(beside)
    print(
        f"{changes} changes in {again_s - stopped_s:.0f} s: the fast reader got {fast_told} messages, the slow one "
        f"{slow_told} in {took_s:.1f} s; memory {base / MIB:.1f} MiB -> {most / MIB:.1f} MiB; median delay "
        f"{statistics.median(beside) * 1000:.0f} ms, with the slow one not reading {ratio:.2f} x as long"
    )
    assert changes >= 0.5 * CHANGES_PER_S * (again_s - stopped_s), "the writer was too slow to show anything"
    assert most - base <= BOUND_BYTES
    assert slow_told < fast_told
    assert ratio <= MOST_TIMES_SLOWER
    assert slow.client.connections == fast.client.connections == 1
    assert sorted(slow.subscription.rows) == sorted(fast.subscription.rows) == answer(ticks)
    for one in (fast, slow):
        one.client.leave(politely=True)


def test_a_reader_that_stops_costs_little_and_gets_the_net_change(stack: ScaledStack, ticks):
    slow_for(stack, ticks, 20.0)


@pytest.mark.chaos
def test_a_reader_that_stops_for_minutes_costs_no_more(stack: ScaledStack, ticks):
    slow_for(stack, ticks, 240.0)


def test_a_large_answer_that_is_not_read_holds_only_its_own_connection_back(stack: ScaledStack, ticks):
    """An ordinary SELECT of 30 MB beside a subscription: PostgreSQL waits, the gateway holds next to nothing of it."""
    fast, slow = Watcher(stack), Watcher(stack)
    until([fast, slow], lambda: all(one.subscription.states for one in (fast, slow)), "the first results")
    base = stack.pss_bytes("gateway")
    with Writer(stack.dsn, ROWS, CHANGES_PER_S) as writer:
        pump([fast, slow], 3.0)
        slow.client.stop_reading()
        told = slow.subscription.messages
        most = pump([fast], 10.0, stack)
        newest = fast.newest
        slow.client.read_again()
        until(
            [fast, slow],
            lambda: slow.newest >= newest and not slow.client.awaits_answers,
            "the large answer and the net",
        )
    final = writer.commits[-1].value
    until([fast, slow], lambda: min(fast.newest, slow.newest) >= final, "the last change")
    print(f"{LARGE_ROWS} rows unread: memory {base / MIB:.1f} MiB -> {most / MIB:.1f} MiB")
    assert most - base <= BOUND_BYTES
    assert slow.subscription.messages - told < fast.subscription.messages
    assert sorted(slow.subscription.rows) == sorted(fast.subscription.rows) == answer(ticks)
    for one in (fast, slow):
        one.client.leave(politely=True)


def test_a_result_larger_than_what_may_stay_unread_reaches_a_client_that_reads(stack: ScaledStack):
    """18 MB at once, and then all of it changed: `unread_bytes` (8 MiB) is about those who do not read."""
    with stack.connect() as connection:
        connection.execute("CREATE TABLE wide (id int PRIMARY KEY, note text NOT NULL)")
        connection.execute("INSERT INTO wide SELECT id, repeat('w', 2000) FROM generate_series(1, 9000) id")
        # Three of them on one connection: each fills it.
        wanted = [Subscription(Question("SELECT id, note FROM wide"), 0, (0,)) for _ in range(3)]
        client = Subscriber(lambda: stack.gateway_dsn, lambda: 0)
        client.want(*wanted)

        def held(note: str) -> None:
            deadline_s = time.monotonic() + PATIENCE_S
            right = Counter((str(n).encode(), note.encode() * 2000) for n in range(1, 9001))
            while not all(one.rows == right for one in wanted):
                client.turn()
                if client.connected:
                    select.select([client], [], [], 0.05)
                client.read()
                assert client.connections <= 1 and time.monotonic() < deadline_s, [one.phase for one in wanted]

        held("w")
        connection.execute("UPDATE wide SET note = repeat('v', 2000)")
        held("v")
        client.leave(politely=True)
        connection.execute("DROP TABLE wide")
