"""Snapshots: one state of the table at a known offset; with the events behind it, what PostgreSQL holds."""

import http.client
import json
import random
import threading
from urllib.parse import quote

import psycopg
import pytest

from services.changelog.snapshot import Snapshot
from services.gateway.flow.cdc.log import Commit
from services.gateway.flow.cdc.snapshots import offset_of
from tests.fixtures.waiting import wait_until

ROWS = 1500
ROUNDS = 8
# Of the long form.
MANY_ROUNDS = 200
# Whatever is written while a gateway starts must still be in the window.
ROOMY = {"TIDEWIRE_CDC_RETENTION_EVENTS": "1000000"}


@pytest.fixture
def table(cdc):
    name = cdc.table("id int PRIMARY KEY, n int, note text")
    cdc.sql(f"INSERT INTO {name} SELECT i, 0, repeat('x', 50) FROM generate_series(1, {ROWS}) i")
    return name


def subscribed(cdc, caller, table, **params):
    include = {"after": True}
    return caller.result(
        "cdc.subscribe_table", db=cdc.database, table=table, include=include, format="plain_json", **params
    )


def taken(caller, sub, query="", most=None):
    """The lines of a snapshot; only so many if the connection is to break."""
    connection = http.client.HTTPConnection("127.0.0.1", caller.port, timeout=60)
    try:
        connection.request("GET", f"/api/v1/cdc/snapshot/{sub['sub_id']}{query}", headers=caller.headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        lines = []
        while (most is None or len(lines) < most) and (line := answer.readline()):
            lines.append(json.loads(line))
        return lines
    finally:
        connection.close()


def fold(state, lines):
    for line in lines:
        if "row" in line:
            state[line["row"]["id"]] = line["row"]
        elif "event" in line:
            apply(state, line["event"])


def apply(state, event):
    if event["op"] == "delete":
        state.pop(event["pk"][0], None)
    else:
        state[event["after"]["id"]] = event["after"]


def brought_up(caller, sub, state, offset):
    """The state with all events behind the offset."""
    caller.result("cdc.ack", sub_id=sub["sub_id"], offset=offset)
    while True:
        page = caller.result("cdc.poll", sub_id=sub["sub_id"], from_offset=offset, limit=1000)
        assert not page["resnapshot_required"], page
        for event in page["events"]:
            apply(state, event)
        if not page["events"]:
            return state
        offset = page["next_offset"]


def held(cdc, table):
    return {row[0]: {"id": row[0], "n": row[1], "note": row[2]} for row in cdc.sql(f"SELECT * FROM {table}")}


class Writer:
    """Changes the table all the time, in two sessions."""

    def __init__(self, cdc, table):
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(cdc, table, seed)) for seed in (1, 2)]

    def _write(self, cdc, table, seed):
        chance = random.Random(seed)
        with psycopg.connect(cdc.captured.dsn, autocommit=True) as connection:
            while not self._stop.is_set():
                key = chance.randint(1, ROWS + 50)
                connection.execute(
                    chance.choice(
                        (
                            f"UPDATE {table} SET n = n + 1 WHERE id = {key}",
                            f"DELETE FROM {table} WHERE id = {key}",
                            f"INSERT INTO {table} VALUES ({key}, {seed}, 'new') ON CONFLICT DO NOTHING",
                        )
                    )
                )
                self._stop.wait(0.003)

    def __enter__(self):
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("who", ["service", "role"])
def test_a_snapshot_under_load_and_the_events_behind_it_are_the_table(cdc, table, who):
    caller = cdc.service() if who == "service" else cdc.user(cdc.role(f"GRANT SELECT ON {table} TO {{}}"))
    sub = subscribed(cdc, caller, table)
    for number in range(ROUNDS):
        state = {}
        with Writer(cdc, table):
            # Every other one breaks off, and goes on behind the last key that came.
            lines = taken(caller, sub, most=random.Random(number).randint(2, ROWS) if number % 2 else None)
            offset = lines[0]["offset"]
            fold(state, lines[1:])
            if "end" not in lines[-1]:
                last = [line["pk"] for line in lines if "pk" in line][-1]
                rest = taken(caller, sub, f"?after={quote(json.dumps(last))}&from_offset={offset}")
                offset = rest[0]["offset"]
                fold(state, rest[1:])
                lines = rest
            assert lines[-1]["end"] and lines[-1]["offset"] == offset
        assert brought_up(caller, sub, state, offset) == held(cdc, table)


def taken_through_kills(cdc, sub, table, chance):
    """A snapshot while its gateway is killed at random moments: gone on with behind the last key, at the next one."""
    state, offset, head, last, ended, kills = {}, None, None, None, False, 0
    while not ended:
        caller = cdc.service(door=-1)
        query = "" if last is None else f"?after={quote(json.dumps(last))}&from_offset={offset}"
        timer = threading.Timer(chance.uniform(0.0, 0.4), cdc.gateways[-1].kill) if kills < 2 else None
        if timer is not None:
            timer.start()
        try:
            for line in streamed(caller, sub, query):
                head = line["offset"] if "columns" in line else head
                fold(state, [line])
                # A later head counts only once all events behind the one before it have come: then rows follow.
                offset = head if "row" in line or "end" in line else offset
                last, ended = line.get("pk", last), "end" in line
        except (OSError, ValueError, http.client.HTTPException):
            pass
        if timer is not None:
            timer.join()
            kills += 1
            cdc.start_gateway(**ROOMY)
            wait_until(lambda: cdc.service(door=-1).call("cdc.pause", sub_id=sub["sub_id"])["ok"], "it is there again")
            cdc.service(door=-1).result("cdc.resume", sub_id=sub["sub_id"])
    return state, offset


def streamed(caller, sub, query):
    connection = http.client.HTTPConnection("127.0.0.1", caller.port, timeout=60)
    try:
        connection.request("GET", f"/api/v1/cdc/snapshot/{sub['sub_id']}{query}", headers=caller.headers)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        while line := answer.readline():
            yield json.loads(line)
    finally:
        connection.close()


@pytest.mark.chaos
def test_snapshots_through_kills_of_the_gateway_and_the_events_behind_them_are_the_table(cdc, table):
    """The long form: 200 snapshots under load, each through up to two kills -9."""
    kept = len(cdc.gateways)
    cdc.start_gateway(**ROOMY)
    sub = subscribed(cdc, cdc.service(door=-1), table)
    for number in range(MANY_ROUNDS):
        with Writer(cdc, table):
            state, offset = taken_through_kills(cdc, sub, table, random.Random(number))
        assert brought_up(cdc.service(door=-1), sub, state, offset) == held(cdc, table), f"round {number}"
    for gateway in cdc.gateways[kept:]:
        gateway.kill()


def test_a_snapshot_has_the_rows_of_its_filters_and_its_columns(cdc, table):
    caller = cdc.service()
    bounds = {"lower_bound": {"t": "i64", "v": 3}, "upper_bound": {"t": "i64", "v": 4}}
    lines = taken(caller, subscribed(cdc, caller, table, pk_range=bounds, columns=["n"], ops=["insert"]))
    assert lines[1:-1] == [{"pk": [{"t": "i64", "v": key}], "row": {"n": 0}} for key in (3, 4)]
    one = taken(caller, subscribed(cdc, caller, table, pk=[{"t": "i64", "v": 7}]))
    assert [line["row"]["id"] for line in one[1:-1]] == [7]


def test_a_table_without_a_key_is_taken_too(cdc):
    table = cdc.table("n int")
    cdc.sql(f"INSERT INTO {table} SELECT generate_series(1, 1200)")
    caller = cdc.service()
    lines = taken(caller, caller.result("cdc.subscribe_table", db=cdc.database, table=table, format="plain_json"))
    assert sorted(line["row"]["n"] for line in lines[1:-1]) == list(range(1, 1201))


def test_after_a_truncate_the_client_takes_the_table_and_goes_on(cdc, table):
    """Decision 15."""
    caller = cdc.service()
    sub = subscribed(cdc, caller, table)
    cdc.sql(f"TRUNCATE {table}; INSERT INTO {table} VALUES (1, 1, 'a')")
    told = caller.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])
    assert told["resnapshot_reason"] == "truncated"
    state, lines = {}, taken(caller, sub)
    fold(state, lines)
    cdc.sql(f"INSERT INTO {table} VALUES (2, 2, 'b')")
    assert brought_up(caller, sub, state, lines[0]["offset"]) == held(cdc, table)


def test_who_may_not_and_what_cannot_be_asked(cdc, table):
    sub = subscribed(cdc, cdc.service(), table)["sub_id"]
    path = f"/api/v1/cdc/snapshot/{sub}"
    assert cdc.service("other").get(path).status == 404
    for query in ("?after=x&from_offset=1", "?after=%5B1%5D", "?from_offset=1", "?after=%5B%5D&from_offset=1"):
        assert cdc.service().get(path + query).status == 400


def test_a_state_between_two_commits_of_the_log_is_none():
    """A commit is in the log before it is visible, so a later one may be visible first."""
    commits = [Commit(10, 0, 3), Commit(12, 3, 3), Commit(11, 3, 7)]
    assert offset_of(Snapshot(20, 20, frozenset()), commits) == 7
    assert offset_of(Snapshot(10, 20, frozenset({10, 11, 12})), commits) == 0
    assert offset_of(Snapshot(11, 20, frozenset({11})), commits) == 3
    assert offset_of(Snapshot(12, 20, frozenset({12})), commits) is None
