"""No forbidden byte leaves the PG port to a role that may not see it, whatever is asked and however.

Every value that some role may not see is a sentinel. Weak roles send generated queries and hostile frames through a
tap while a writer changes everything; the tap looks at each byte that comes back. That it can see a leak is shown by
a role that may see all, and by leaks that are planted.
"""

import json
import os
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from proto.pgwire.live import Ack, Refused, Subscribe
from tests.fixtures.full_stack import FullStack, running_stack
from tests.fixtures.wire import WireClient
from tests.security.sentinel import database
from tests.security.sentinel.database import FORBIDDEN, SENTINEL, Roles, Writer
from tests.security.sentinel.prober import Prober
from tests.security.sentinel.tap import Tap

SEED = os.environ.get("SENTINEL_SEED", "1")
SHORT_S = 15.0
LONG_S = float(os.environ.get("SENTINEL_SECONDS", "600"))
WITHIN_S = 60.0
# What the limits of rate refuse is looked at no further, and these weak roles are to come as far as they can.
GENEROUS = {
    "TIDEWIRE_GATEWAY_SUBSCRIBES_PER_S": "10000",
    "TIDEWIRE_GATEWAY_SUBSCRIBES_UNDER_WAY": "10000",
    "TIDEWIRE_GATEWAY_MESSAGES_PER_S": "10000",
}
MOST_RATE_LIMITED = 0.05
# Kept row by row, evaluated as a whole, and run by PostgreSQL.
STRATEGIES = {
    "row-local": "SELECT id, payload FROM {table} WHERE id < 30",
    "full": "SELECT max(t.payload), count(*) FROM {table} t JOIN opened o ON o.id = t.id GROUP BY o.n % 3",
    "source": "SELECT random() < 2, payload FROM {table}",
}


class Scene:
    """A stack, its roles, and taps before its gateway."""

    def __init__(self, stack: FullStack, direct: psycopg.Connection, roles: Roles) -> None:
        self.stack, self.direct, self.roles = stack, direct, roles

    def dsn(self, role: str, tap: Tap) -> str:
        return make_conninfo(self.stack.gateway_dsn, user=role, password=role, host="127.0.0.1", port=tap.port)

    @contextmanager
    def tap(self) -> Iterator[Tap]:
        made = Tap(self.stack.gateway_port, FORBIDDEN)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def scene(postgres_server, kafka, tmp_path_factory) -> Iterator[Scene]:
    with (
        running_stack(postgres_server, kafka, tmp_path_factory.mktemp("sentinel"), **GENEROUS) as stack,
        psycopg.connect(stack.dsn, autocommit=True) as direct,
    ):
        roles = database.build(direct, secrets.token_hex(3))
        try:
            yield Scene(stack, direct, roles)
        finally:
            database.remove(direct, roles)


def until_leak(scene: Scene, tap: Tap, role: str, query: str) -> None:
    """Subscribe and wait until the tap has seen a sentinel."""
    with WireClient(scene.dsn(role, tap)) as client:
        client.send(Subscribe(query))
        deadline = time.monotonic() + WITHIN_S
        while not tap.leaks and time.monotonic() < deadline:
            client.live(0.2)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_tap_sees_what_a_role_that_may_see_all_receives(scene, strategy):
    with scene.tap() as tap:
        until_leak(scene, tap, scene.roles.reader, STRATEGIES[strategy].format(table="vault"))
        assert SENTINEL.encode() in b"".join(tap.leaks)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_tap_sees_a_planted_leak(scene, strategy):
    """A view with its owner's rights that was granted by mistake."""
    scene.direct.execute(f"GRANT SELECT ON leaky, opened TO {scene.roles.nobody}")
    try:
        with scene.tap() as tap:
            until_leak(scene, tap, scene.roles.nobody, STRATEGIES[strategy].format(table="leaky"))
            assert tap.leaks
    finally:
        scene.direct.execute(f"REVOKE SELECT ON leaky, opened FROM {scene.roles.nobody}")


def test_the_tap_sees_a_planted_leak_in_the_text_of_an_error(scene):
    scene.direct.execute(f"GRANT SELECT ON leaky TO {scene.roles.nobody}")
    try:
        with scene.tap() as tap:
            until_leak(scene, tap, scene.roles.nobody, "SELECT (payload)::int FROM leaky")
            assert b"invalid input syntax" in b"".join(tap.leaks)
    finally:
        scene.direct.execute(f"REVOKE SELECT ON leaky FROM {scene.roles.nobody}")


def test_rows_that_move_out_of_sight_leave_without_their_new_values(scene):
    """What an UPDATE makes of a row is not for those who could see it before."""
    role, key = scene.roles.member, 9001
    scene.direct.execute("INSERT INTO guarded VALUES (%s, %s, 'in sight')", [key, role])
    with scene.tap() as tap, WireClient(scene.dsn(role, tap)) as client:
        client.send(Subscribe("SELECT id, payload FROM guarded WHERE id > 9000"))
        assert isinstance(client.live(WITHIN_S), Ack)
        assert client.live(WITHIN_S).rows == ((b"9001", b"in sight"),)
        told = []
        for owner, payload in (("somebody", SENTINEL), (role, "again"), ("somebody", SENTINEL)):
            scene.direct.execute("UPDATE guarded SET owner = %s, payload = %s WHERE id = %s", [owner, payload, key])
            told.append(client.live(WITHIN_S).rows)
        assert (told, tap.leaks) == (
            [((b"9001", b"in sight"),), ((b"9001", b"again"),), ((b"9001", b"again"),)],
            [],
        )
    scene.direct.execute("DELETE FROM guarded WHERE id = %s", [key])


def restarted(stack: FullStack) -> bool:
    """Start recompute again if it ended itself, as a supervisor does: it may, when a job cannot be ended in time."""
    if stack.processes["recompute"].poll() is None:
        return False
    stack.start("recompute")
    return True


def probe(scene: Scene, seconds: float) -> tuple[Counter[str], list[bytes], int]:
    """All weak roles at once beside a writer; what they did, what leaked, and how many bytes were looked at."""
    others: list[UUID] = []
    restarts = 0
    with scene.tap() as privileged, Writer(scene.stack.dsn, scene.roles, int(SEED)) as writer:
        readers = [WireClient(scene.dsn(scene.roles.reader, privileged)) for _ in STRATEGIES]
        for client, query in zip(readers, STRATEGIES.values(), strict=True):
            client.send(Subscribe(query.format(table="vault")))
            accepted = client.live(WITHIN_S)
            assert isinstance(accepted, Ack), accepted
            others.append(accepted.subscription)
        taps = {role: Tap(scene.stack.gateway_port, FORBIDDEN) for role in scene.roles.weak}
        probers = [
            Prober(
                scene.dsn(role, tap),
                scene.roles.reader,
                seed=f"{SEED}.{role.rpartition('_')[0]}",
                others=others,
                allowed=scene.roles.allowed(role),
            )
            for role, tap in taps.items()
        ]
        for prober in probers:
            prober.start()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not any(tap.leaks for tap in taps.values()):
            restarts += restarted(scene.stack)
            for client in readers:
                client.arrived()
            time.sleep(0.05)
        for prober in probers:
            prober.stop()
        for prober in probers:
            prober.join(WITHIN_S)
        for tap in taps.values():
            tap.close()
        for client in readers:
            client.close()
    failures = [prober.failure for prober in probers if prober.failure is not None]
    assert failures == []
    counts: Counter[str] = sum((prober.counts for prober in probers), Counter())
    counts["commits"], counts["recompute restarts"] = writer.commits, restarts
    refusals: Counter[str] = sum((prober.refusals for prober in probers), Counter())
    counts["rate limited"] = sum(count for words, count in refusals.items() if words.startswith("Rate limited"))
    print(f"sentinel: most frequent refusals: {refusals.most_common(12)}")
    leaks = [role.encode() + b": " + leak for role, tap in taps.items() for leak in tap.leaks]
    return counts, leaks, sum(tap.bytes_seen for tap in taps.values())


def judge(scene: Scene, seconds: float, record_property) -> None:
    counts, leaks, seen = probe(scene, seconds)
    record_property("sentinel", json.dumps({**counts, "bytes": seen, "seconds": seconds, "seed": SEED}))
    print(f"sentinel: {dict(counts)}, {seen} bytes in {seconds:.0f} s, seed {SEED}")
    assert leaks == []
    busy = {name: counts[name] > 0 for name in ("queries", "hostile", "accepted", "refused", "data", "commits")}
    assert busy == dict.fromkeys(busy, True), counts
    assert counts["rate limited"] <= MOST_RATE_LIMITED * counts["refused"], counts
    scene.stack.wait_ready("gateway", 10.0)
    restarted(scene.stack)
    scene.stack.wait_ready("recompute", 120.0)


def test_no_sentinel_leaves_to_a_weak_role(scene, record_property):
    judge(scene, SHORT_S, record_property)


@pytest.mark.chaos
def test_no_sentinel_leaves_to_a_weak_role_for_ten_minutes(scene, record_property):
    judge(scene, LONG_S, record_property)


def test_what_a_weak_role_is_refused_names_no_value(scene):
    """The texts of refusals, one by one."""
    with scene.tap() as tap, WireClient(scene.dsn(scene.roles.columns, tap)) as client:
        for query in ("SELECT secret FROM mixed", "TABLE mixed", "SELECT (secret)::int FROM mixed", "TABLE vault"):
            client.send(Subscribe(query))
            assert isinstance(client.live(WITHIN_S), Refused), query
        assert tap.leaks == []
