"""LISTEN on the NOTIFY door's channel by the drivers of other languages, through a gateway (P30, decision 17).

The test is the worker: it tells a message now and again, so that whoever listens hears some that follow each other.
"""

import json
import subprocess
import threading
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from services.devstack.postgres import wheel_bin
from tests.clients.programs import go_command, java_command, node_command, program
from tests.fixtures.notify_worker import NotifyWorker
from tests.fixtures.waiting import EVERY_S, wait_until

QUERY_ID, GEN = "active_orders", 4


@pytest.fixture(scope="module")
def door(doors):
    return replace(doors.proxied, database="postgres")


@pytest.fixture
def told(door, gateway, kafka):
    """The payloads that are told from now on, again and again until the test ends."""
    worker = NotifyWorker(kafka.bootstrap, "clients.", role=door.user)
    payloads, is_over = [], threading.Event()

    def tell():
        while not is_over.wait(EVERY_S):
            payloads.append(worker.delta(QUERY_ID, GEN, status="Grüße 世界", amount=149.99))

    thread = threading.Thread(target=tell)
    thread.start()
    yield payloads
    is_over.set()
    thread.join()
    worker.close()


def assert_heard(heard, told):
    """Three messages of the channel as they were told, and none between them left out."""
    assert [channel for channel, _ in heard] == ["pgr"] * 3
    first = told.index(heard[0][1])
    assert [payload for _, payload in heard] == told[first : first + 3]
    assert json.loads(heard[0][1])["gen"] == GEN


def test_p30_node_postgres_listens(door, told):
    assert_heard(program(node_command(), "listening")(door), told)


def test_p30_pgx_listens(door, told):
    assert_heard(program(go_command(), "listening")(door)["heard"], told)


def test_p30_pgjdbc_listens(door, told):
    assert_heard(program(java_command(), "listening")(door), told)


@contextmanager
def psql(door, output):
    with output.open("w") as out:
        command = [str(wheel_bin(18) / "psql"), "-X", "-q", "-A", "-t"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, env=door.environ, text=True) as session:
            yield session
            session.stdin.close()
            assert session.wait(30) == 0


def test_p30_psql_listens(door, told, tmp_path):
    """psql prints what came whenever it has run a statement."""
    output = tmp_path / "out"
    with psql(door, output) as session:
        session.stdin.write("LISTEN pgr;\n")

        def heard():
            session.stdin.write("SELECT 1;\n")
            session.stdin.flush()
            lines = [line for line in output.read_text().splitlines() if line.startswith("Asynchronous notification")]
            return lines[:3] if len(lines) > 3 else None

        lines = wait_until(heard, lambda: output.read_text())
    beginning, end = 'Asynchronous notification "pgr" with payload "', '" received from server process with PID '
    assert all(line.startswith(beginning) and end in line for line in lines)
    assert_heard([("pgr", line.removeprefix(beginning).partition(end)[0]) for line in lines], told)
