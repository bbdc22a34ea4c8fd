"""Retention on a real Kafka and Redis, with a clock of the test's own: what goes, what stays, what is said."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator

import msgspec
import pytest
import structlog
from prometheus_client import CollectorRegistry

from proto.tidewire.v1.changes_pb2 import ChangesRecord, Heartbeat
from proto.tidewire.v1.topic_states_pb2 import RoutesPosition, TopicState, TopicStateRecord
from proto.tidewire.v1.user_topics_pb2 import TopicMessage
from proto.topics import CHANGES, FLOW, TOPIC_STATES
from services.chassis.kafka import Kafka, Reader, Writer, ensure_topics
from services.chassis.kafka.committed import read_to_end
from services.chassis.redis import Redis, connect_sync
from services.devstack.ports import free_port
from services.recompute.outbound.topic_states import TopicStates
from services.recompute.outbound.user_topics import UserTopics, record_of, topic_name
from services.retention.flow.run import RetentionRun
from services.retention.metrics import Metrics
from services.retention.outbound.horizons import Horizons
from services.retention.settings import Retention
from tests.fixtures.kafka import KafkaBroker
from tests.fixtures.readiness import is_ready
from tests.fixtures.redis import RedisServer
from tests.fixtures.waiting import wait_until

S = 1_000_000


class Trimmed:
    """A log and a topic, as recompute and capture would have written them; `now_s` is the clock."""

    def __init__(self, kafka: Kafka, redis_server: RedisServer) -> None:
        self.kafka, self.now_s, self._redis = kafka, 0, redis_server
        ensure_topics(kafka, FLOW)
        self.client = connect_sync(Redis(url=redis_server.url))
        self.horizons = Horizons(self.client, kafka)
        self.writer, self._next = TopicStates(kafka, 0), 0

    def define(self, **limits: int) -> None:
        definition = {"topic_id": "app.t", "name": "app.t", "partitions": 1, **limits}
        UserTopics(self.kafka).ensure([("app.t", 1)])
        state = TopicState(topic_id="app.t", definition=msgspec.json.encode(definition), next_offsets=[self._next])
        self.writer.write([], [(b"app.t", TopicStateRecord(topic=state).SerializeToString())])

    def position(self, first_seq: int, heard_s: int) -> None:
        for number in range(TOPIC_STATES.partitions):
            place = RoutesPosition(history=1, first_seq=first_seq, written_us=heard_s * S)
            record = TopicStateRecord(position=place).SerializeToString()
            writer = self.writer if number == 0 else TopicStates(self.kafka, number)
            writer.write([], [(b"position", record)])

    def write(self, *moments_s: int) -> None:
        """A transaction each, as ticks do: Kafka's offsets get gaps."""
        for moment_s in moments_s:
            message = TopicMessage(
                topic_id="app.t", offset=self._next, operation=1, committed_us=moment_s * S, payload=b"x" * 100
            )
            self._next += 1
            self.writer.write([record_of(message)], [])

    def offsets(self) -> list[int]:
        reader = Reader(self.kafka, topic_name("app.t"), 0, client_id="test")
        low, _ = reader.low_and_high()
        reader.close()
        found = read_to_end(self.kafka, topic_name("app.t"), 0, low, client_id="test")
        return [TopicMessage.FromString(one.value() or b"").offset for one in found]

    def retention(self, **settings: float) -> RetentionRun:
        return RetentionRun(
            self.kafka,
            self.horizons,
            msgspec.convert({"changes_keep_s": 0.0, "changes_events": 10, **settings}, Retention),
            metrics=Metrics(CollectorRegistry()),
            log=structlog.get_logger(),
            clock_us=lambda: self.now_s * S,
        )

    def environ(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("TIDEWIRE_")},
            "TIDEWIRE_KAFKA_BOOTSTRAP": self.kafka.bootstrap,
            "TIDEWIRE_KAFKA_TOPIC_PREFIX": self.kafka.topic_prefix,
            "TIDEWIRE_REDIS_URL": self._redis.url,
        }


@pytest.fixture
def trimmed(kafka: KafkaBroker, redis_server: RedisServer, topic_prefix: str) -> Iterator[Trimmed]:
    made = Trimmed(Kafka(bootstrap=kafka.bootstrap, topic_prefix=topic_prefix), redis_server)
    yield made
    made.client.close()


def test_k28_messages_go_exactly_when_they_are_too_old_and_the_last_record_stays(trimmed: Trimmed):
    trimmed.define(retention_seconds=100)
    trimmed.write(10, 20, 30, 40)
    run = trimmed.retention()
    trimmed.now_s = 110
    assert run.run() == [] and trimmed.offsets() == [0, 1, 2, 3]
    trimmed.now_s = 121
    said = ["topic app.t, partition 0: messages before offset 2"]
    assert run.run(is_dry=True) == said
    assert trimmed.offsets() == [0, 1, 2, 3] and trimmed.horizons.earliest("app.t", 0) == 0
    assert run.run() == said
    assert trimmed.offsets() == [2, 3] and trimmed.horizons.earliest("app.t", 0) == 2
    trimmed.now_s = 1000
    assert run.run() == ["topic app.t, partition 0: messages before offset 4"]
    assert trimmed.offsets() == [3] and trimmed.horizons.earliest("app.t", 0) == 4
    assert run.run() == []


def test_k28_bytes_are_exact_and_two_at_once_do_no_harm(trimmed: Trimmed):
    trimmed.define(retention_max_bytes=350)
    trimmed.write(*range(600))
    first, second = trimmed.retention(), trimmed.retention()
    first.run()
    second.run()
    last = TopicMessage(topic_id="app.t", offset=599, operation=1, committed_us=599 * S, payload=b"x" * 100)
    kept = trimmed.offsets()
    assert kept == list(range(600 - 350 // last.ByteSize(), 600)) and len(kept) > 1
    assert trimmed.horizons.earliest("app.t", 0) == kept[0]
    trimmed.write(600, 601)
    first.run()
    second.run()
    assert trimmed.offsets() == [offset + 2 for offset in kept]


def test_redis_that_lost_its_keys_has_them_again_after_a_run_and_dropped_topics_leave_none(trimmed: Trimmed):
    trimmed.define(retention_seconds=100)
    trimmed.write(10)
    trimmed.now_s = 500
    run = trimmed.retention()
    run.run()
    key = f"tidewire:{trimmed.kafka.topic_prefix}topics:earliest:app.t:0"
    trimmed.client.delete(key)
    run.run()
    assert trimmed.client.get(key) == b"1"
    trimmed.position(first_seq=1, heard_s=500)
    trimmed.writer.write([], [(b"app.t", None)])
    assert run.run() == ["Redis: 1 keys of topics that are gone"] and trimmed.client.get(key) is None


def test_changes_are_trimmed_behind_the_slowest_living_reader_and_never_the_last_record(trimmed: Trimmed):
    log = Writer(trimmed.kafka, CHANGES.name, client_id="test")
    for seq in range(1, 101):
        record = ChangesRecord(
            epoch=1, writer=1, history=1, committed_lsn=seq, committed_seq=seq, heartbeat=Heartbeat(lsn=seq)
        )
        log.send(record.SerializeToString())
    log.flush(10)
    reader = Reader(trimmed.kafka, CHANGES.name, client_id="test")
    trimmed.now_s = 2_000_000_000
    trimmed.position(first_seq=41, heard_s=trimmed.now_s)
    assert trimmed.retention(changes_keep_s=3_000_000_000.0).run() == []
    assert trimmed.retention().run() == ["changes: 39 records, all before seq 40"]
    assert reader.low_and_high() == (39, 100)
    # Silent for longer than the grace: only what the CDC door promises is kept.
    trimmed.now_s += 100
    assert trimmed.retention(reader_grace_s=50.0).run() == ["changes: 50 records, all before seq 90"]
    trimmed.position(first_seq=1000, heard_s=trimmed.now_s)
    trimmed.retention(changes_events=1).run()
    assert reader.low_and_high()[0] <= 99


def test_the_command_says_what_it_would_trim_and_trims_nothing(trimmed: Trimmed):
    trimmed.define(retention_seconds=100)
    trimmed.write(10, 20)
    command = [sys.executable, "-m", "services.retention", "--dry-run"]
    said = subprocess.run(command, env=trimmed.environ(), capture_output=True, text=True, timeout=60, check=True)
    assert said.stdout == "topic app.t, partition 0: messages before offset 2\n"
    assert trimmed.offsets() == [0, 1]


def test_the_service_trims_by_itself_tells_its_horizons_and_ends_when_asked(trimmed: Trimmed):
    trimmed.define(retention_seconds=100)
    trimmed.write(10, 20)
    port = free_port()
    environ = {**trimmed.environ(), "TIDEWIRE_HTTP_PORT": str(port), "TIDEWIRE_RETENTION_INTERVAL_S": "0.5"}
    with subprocess.Popen([sys.executable, "-m", "services.retention"], env=environ) as process:
        try:
            wait_until(lambda: is_ready(port), "retention to be ready")
            assert trimmed.horizons.earliest("app.t", 0) == 2 and trimmed.offsets() == [1]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
                assert "tidewire_retention_trimmed_messages_total 2.0" in answer.read().decode()
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
