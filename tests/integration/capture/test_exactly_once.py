"""Exactly once through the shared reader, whatever dies or stalls, as PostgreSQL itself witnesses it."""

import random
import time
from pathlib import Path

import pytest

from proto.streams.changes import RowChanged, Truncated
from tests.fixtures.capture import CapturedDatabase, CaptureProcess
from tests.fixtures.kafka import KafkaBroker, start_kafka
from tests.fixtures.witness import Witness, commits_of, seen_by_reader
from tests.integration.capture.workload import Workload

# Segments so small that most transactions are cut, and records so small that most segments go in pieces: a death often
# leaves half of one in the log.
SETTINGS = {"slot_wait_s": "5", "wal_sender_timeout_ms": "1500", "segment_bytes": "600", "record_bytes": "450"}


class Havoc:
    """What happens to the captures and the broker while the workload runs."""

    def __init__(self, captured: CapturedDatabase, broker: KafkaBroker) -> None:
        self._captured, self._broker = captured, broker
        self._chance = random.Random(7)
        self.capture: CaptureProcess = captured.start(**SETTINGS).wait_ready()

    def kill_capture(self) -> None:
        self._let_work()
        self.capture.kill()
        self.capture = self._captured.start(**SETTINGS)

    def kill_capture_at_once(self) -> None:
        """A second death before the first restart is done."""
        self.capture.kill()
        self.capture = self._captured.start(**SETTINGS)

    def end_walsender(self) -> None:
        """The server ends the stream; the same process takes the log over again."""
        self._let_work()
        with self._captured.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'tidewire'"
            )

    def kill_broker(self) -> None:
        self._let_work()
        self._broker.kill()
        self._broker.restart()

    def stall_replace_and_wake_capture(self) -> None:
        self._let_work()
        stalled = self.capture
        stalled.halt()
        self.capture = self._captured.start(**SETTINGS).wait_ready()
        self._let_work()
        stalled.wake()
        # It finds its slot taken and ends by itself; what it still had to send is void.
        assert stalled.process.wait(60) != 0

    def _let_work(self) -> None:
        self.capture.wait_ready()
        time.sleep(self._chance.uniform(0.1, 0.8))


def run(captured: CapturedDatabase, broker: KafkaBroker, *, kills: int, broker_kills: int, stalls: int) -> None:
    havoc = Havoc(captured, broker)
    with captured.connect() as connection:
        witness = Witness(connection)
        acts = [havoc.kill_capture] * kills + [havoc.kill_broker] * broker_kills
        acts += [havoc.stall_replace_and_wake_capture] * stalls
        acts += [havoc.kill_capture_at_once, havoc.end_walsender] * (kills // 4)
        random.Random(3).shuffle(acts)
        with Workload(captured.dsn) as workload:
            for act in acts:
                act()
        havoc.capture.wait_ready()
        events = captured.events_up_to_now(within_s=120)
        assert_exactly_once(events, witness, workload)


def assert_in_order_once(events: list, witness: Witness) -> list[RowChanged | Truncated]:
    changes = [event for event in events if isinstance(event, RowChanged | Truncated)]
    assert [event.seq for event in changes] == list(range(1, len(changes) + 1))
    commits = commits_of(events)
    assert commits == sorted(set(commits))
    assert seen_by_reader(events) == witness.changes()
    return changes


def assert_exactly_once(events: list, witness: Witness, workload: Workload) -> None:
    changes = assert_in_order_once(events, witness)
    inserted = [
        (event.relation.name, event.after[0].decode())
        for event in changes
        if isinstance(event, RowChanged) and event.operation == "insert"
    ]
    assert sorted(inserted) == sorted(workload.committed())
    assert len(inserted) > 1000


@pytest.mark.slow
def test_every_committed_change_comes_out_once_though_captures_and_the_broker_die_and_stall(
    database: str, topic_prefix: str, tmp_path: Path
):
    with start_kafka(tmp_path / "kafka") as broker:
        captured = CapturedDatabase(database, broker, topic_prefix, tmp_path)
        try:
            run(captured, broker, kills=4, broker_kills=1, stalls=2)
        finally:
            captured.end()


@pytest.mark.slow
def test_large_rows_come_out_once_though_the_stream_ends_in_the_middle_of_their_pieces(captured: CapturedDatabase):
    capture = captured.start(record_bytes="100000").wait_ready()
    with captured.connect() as connection:
        connection.execute("CREATE TABLE large (id int PRIMARY KEY, content text)")
        connection.execute("ALTER TABLE large ALTER content SET STORAGE EXTERNAL, REPLICA IDENTITY FULL")
        witness = Witness(connection)
        for number in range(12):
            with connection.transaction():
                connection.execute("INSERT INTO large VALUES (%s, repeat(%s, 4000000))", (number, chr(97 + number)))
                connection.execute("UPDATE large SET content = content || 'again' WHERE id = %s", (number,))
                connection.execute("UPDATE large SET id = id + 100 WHERE id = %s", (number,))
            connection.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = 'tidewire'"
            )
            if number % 4 == 3:
                capture.kill()
                capture = captured.start(record_bytes="100000")
        events = captured.events_up_to_now(within_s=120)
        assert_in_order_once(events, witness)
    assert sum(isinstance(event, RowChanged) for event in events) == 36


@pytest.mark.chaos
def test_every_committed_change_comes_out_once_through_twenty_kills_three_broker_kills_and_ten_stalls(
    database: str, topic_prefix: str, tmp_path: Path
):
    with start_kafka(tmp_path / "kafka") as broker:
        captured = CapturedDatabase(database, broker, topic_prefix, tmp_path)
        try:
            run(captured, broker, kills=20, broker_kills=3, stalls=10)
        finally:
            captured.end()
