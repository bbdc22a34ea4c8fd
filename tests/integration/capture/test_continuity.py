"""What breaks the log's continuity is noticed at the next start and told to every reader, never passed in silence."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import AdminClient

from proto.streams.changes import ChangeEvent, HistoryBegan, RowChanged
from services.capture.core.continuity import SEQS_PER_HISTORY
from services.chassis.kafka import Kafka
from tests.fixtures.capture import CapturedDatabase
from tests.fixtures.kafka import start_kafka
from tests.fixtures.postgres import start_postgres

CaptureAt = Callable[[str], CapturedDatabase]


def histories(events: list[ChangeEvent]) -> list[tuple[int, str]]:
    return [(event.history, event.because) for event in events if isinstance(event, HistoryBegan)]


def seqs(events: list[ChangeEvent]) -> list[int]:
    return [event.seq for event in events if isinstance(event, RowChanged)]


def capture_some(captured: CapturedDatabase) -> None:
    """A first capture that has written and acknowledged, and has ended."""
    process = captured.start().wait_ready()
    with captured.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS goods (id serial PRIMARY KEY)")
        connection.execute("INSERT INTO goods DEFAULT VALUES")
    captured.events_up_to_now()
    assert process.terminate() == 0


def capture_again(captured: CapturedDatabase) -> list[ChangeEvent]:
    """A second capture over whatever happened in between, and what the whole log then says."""
    captured.start().wait_ready()
    with captured.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS goods (id serial PRIMARY KEY)")
        connection.execute("INSERT INTO goods DEFAULT VALUES")
    return captured.events_up_to_now()


def assert_new_history(events: list[ChangeEvent], because: str) -> None:
    assert histories(events) == [(1, "first_start"), (2, because)]
    first, *later = seqs(events)
    assert first == 1 and later
    assert min(later) > SEQS_PER_HISTORY, "a seq of the new history can be told from any of the old one"


def test_an_ordinary_restart_continues_the_history(captured: CapturedDatabase):
    capture_some(captured)
    events = capture_again(captured)
    assert histories(events) == [(1, "first_start")]
    assert seqs(events) == [1, 2]


def test_a_restart_of_postgres_continues_the_history_and_does_not_wait_for_a_heartbeat(
    captured_at: CaptureAt, tmp_path: Path
):
    with start_postgres(tmp_path / "postgres") as server:
        captured = captured_at(server.dsn)
        capture = captured.start(heartbeat_s="600").wait_ready()
        for _ in range(3):
            with captured.connect() as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS goods (id serial PRIMARY KEY)")
                connection.execute("INSERT INTO goods DEFAULT VALUES")
            began = time.monotonic()
            server.restart()
            # The fixture kills a server that does not end within 15 s.
            assert time.monotonic() - began < 12
            capture.wait_ready()
        events = captured.events_up_to_now()
        assert histories(events) == [(1, "first_start")]
        assert seqs(events) == [1, 2, 3]


def test_a_dropped_slot_begins_a_new_history(captured: CapturedDatabase):
    capture_some(captured)
    with captured.connect() as connection:
        connection.execute("SELECT pg_drop_replication_slot('tidewire')")
        connection.execute("INSERT INTO goods DEFAULT VALUES")  # nobody will ever see this one in the log
    assert_new_history(capture_again(captured), "slot_lost")


def test_an_invalidated_slot_begins_a_new_history(captured_at: CaptureAt, tmp_path: Path):
    limits = {"max_slot_wal_keep_size": "1MB", "max_wal_size": "64MB", "min_wal_size": "32MB"}
    with start_postgres(tmp_path / "postgres", settings=limits) as server:
        captured = captured_at(server.dsn)
        capture_some(captured)
        with captured.connect() as connection:
            while connection.execute(
                "SELECT wal_status FROM pg_replication_slots WHERE slot_name = 'tidewire'"
            ).fetchone() != ("lost",):
                connection.execute("CREATE TABLE ballast AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
                connection.execute("DROP TABLE ballast")
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("CHECKPOINT")
        assert_new_history(capture_again(captured), "slot_lost")


def test_another_cluster_begins_a_new_history(captured_at: CaptureAt, tmp_path: Path):
    with start_postgres(tmp_path / "first") as first:
        capture_some(captured_at(first.dsn))
    with start_postgres(tmp_path / "second") as second:
        assert_new_history(capture_again(captured_at(second.dsn)), "database_replaced")


def test_another_timeline_begins_a_new_history(captured_at: CaptureAt, tmp_path: Path):
    with start_postgres(tmp_path / "postgres", settings={"restore_command": "false"}) as server:
        captured = captured_at(server.dsn)
        capture_some(captured)
        server.kill()
        (server.data / "recovery.signal").touch()
        server.restart()
        assert_new_history(capture_again(captured), "database_replaced")


def test_a_database_set_back_to_an_older_copy_begins_a_new_history(captured_at: CaptureAt, tmp_path: Path):
    with start_postgres(tmp_path / "postgres") as server:
        captured = captured_at(server.dsn)
        capture_some(captured)
        server.kill()
        shutil.copytree(server.data, tmp_path / "copy", symlinks=True)
        server.restart()
        events = capture_again(captured)
        assert seqs(events) == [1, 2]
        captured.end()
        server.kill()
        shutil.rmtree(server.data)
        shutil.copytree(tmp_path / "copy", server.data, symlinks=True)
        server.restart()
        events = capture_again(captured)
        assert histories(events) == [(1, "first_start"), (2, "database_replaced")]
        assert seqs(events)[:2] == [1, 2] and seqs(events)[2] > 3


def test_a_recreated_topic_begins_a_new_history(captured: CapturedDatabase):
    capture_some(captured)
    delete_topic(captured.kafka, "changes")
    events = capture_again(captured)
    assert histories(events) == [(2, "log_replaced")]
    assert seqs(events)[0] > 1, "positions of the lost log are not used again"


def test_a_broker_that_lost_its_tail_begins_a_new_history(database: str, topic_prefix: str, tmp_path: Path):
    with start_kafka(tmp_path / "kafka") as broker:
        captured = CapturedDatabase(database, broker, topic_prefix, tmp_path)
        try:
            capture_some(captured)
            broker.kill()
            shutil.copytree(broker.data, tmp_path / "copy")
            broker.restart()
            events = capture_again(captured)
            assert seqs(events) == [1, 2]
            captured.end()
            broker.kill()
            shutil.rmtree(broker.data)
            shutil.copytree(tmp_path / "copy", broker.data)
            broker.restart()
            assert_new_history(capture_again(captured), "log_lost_tail")
        finally:
            captured.end()


def delete_topic(kafka: Kafka, name: str) -> None:
    admin = AdminClient(kafka.client_config())
    admin.delete_topics([kafka.broker_name(name)])[kafka.broker_name(name)].result()
