"""The Python client of the door, and `tidewire cdc tail`."""

import itertools
import subprocess
import sys
import threading

import pytest
from tidewire.cdc import Cdc, CdcError, ResnapshotRequired

from tests.fixtures.waiting import wait_until


@pytest.fixture
def door(cdc):
    token = cdc.service("client").headers["Authorization"].removeprefix("Bearer ")
    return Cdc(f"http://127.0.0.1:{cdc.doors[0]}", token=token)


def test_events_come_until_they_are_acked(cdc, door):
    """S22: another process goes on behind what was acked."""
    table = cdc.table("id int PRIMARY KEY")
    sub = door.subscribe_table(cdc.database, table, include={"after": True}, format="plain_json")
    cdc.sql(f"INSERT INTO {table} SELECT generate_series(1, 5)")
    for event in itertools.islice(sub, 3):
        if event.pk == [2]:
            event.ack()
    assert (event.op, event.table, event.after) == ("insert", table, {"id": 3})
    again = door.subscription(sub.sub_id)
    assert [event.pk for event in itertools.islice(again, 3)] == [[3], [4], [5]]
    assert [event.pk for event in door.subscription(sub.sub_id).poll()] == [[3], [4], [5]]
    sub.close()
    with pytest.raises(CdcError) as refused:
        next(iter(again))
    assert refused.value.code == "not_found"


def test_a_resnapshot_is_raised_and_cleared_by_an_ack(cdc, door):
    table = cdc.table("id int PRIMARY KEY")
    sub = door.subscribe_table(cdc.database, table)
    cdc.sql(f"TRUNCATE {table}; INSERT INTO {table} VALUES (1)")
    with pytest.raises(ResnapshotRequired) as told:
        next(iter(sub))
    assert told.value.reason == "truncated"
    sub.ack(told.value.offset)
    assert next(iter(sub)).op == "insert"


def test_the_iterator_comes_back_by_itself(cdc):
    """S34: a gateway that dies costs no event."""
    cdc.start_gateway()
    port = cdc.doors[-1]
    token = cdc.service("client").headers["Authorization"].removeprefix("Bearer ")
    door = Cdc(f"http://127.0.0.1:{port}", token=token)
    table = cdc.table("id int PRIMARY KEY")
    sub = door.subscribe_table(cdc.database, table, format="plain_json")
    seen = []
    reading = threading.Thread(
        target=lambda: seen.extend(event.pk[0] for event in itertools.islice(sub, 4)), daemon=True
    )
    reading.start()
    cdc.sql(f"INSERT INTO {table} VALUES (1), (2)")
    wait_until(lambda: sub.offset > 0 and sub.state, "it reads")
    cdc.gateways[-1].kill()
    cdc.sql(f"INSERT INTO {table} VALUES (3), (4)")
    cdc.start_gateway(TIDEWIRE_GATEWAY_HTTP_PORT=str(port))
    reading.join(60)
    cdc.gateways[-1].kill()
    assert seen == [1, 2, 3, 4]


def test_tidewire_cdc_tail_prints_and_acks(cdc, door):
    table = cdc.table("id int PRIMARY KEY, name text")
    sub = door.subscribe_table(cdc.database, table, include={"after": True}, format="plain_json")
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'Ada'), (2, 'Grace')")
    token = cdc.service("client").headers["Authorization"].removeprefix("Bearer ")
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", "cdc", "tail", table, "--sub", sub.sub_id, "--events", "2"],
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": ":".join(sys.path),
            "TIDEWIRE_POSTGRES_DSN": cdc.captured.dsn,
            "GATEWAY_URL": f"http://127.0.0.1:{cdc.doors[0]}",
            "GATEWAY_TOKEN": token,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        f'insert {table} [1] {{"id": 1, "name": "Ada"}}',
        f'insert {table} [2] {{"id": 2, "name": "Grace"}}',
    ]
    assert door.subscription(sub.sub_id).poll() == []
