"""Capture and the routes as processes, on a fresh database; topics are defined by SQL and read from Kafka."""

import json
from pathlib import Path
from typing import Any

import psycopg

from proto.tidewire.v1.user_topics_pb2 import TopicMessage, TopicOperation
from proto.topics import FLOW
from services.changelog import barrier
from services.chassis.kafka import Kafka, Reader, TopicMissing, ensure_topics
from services.chassis.kafka.committed import read_to_end
from services.recompute.inbound.topic_states import standing
from services.recompute.outbound.user_topics import topic_name
from tests.e2e.recompute.worker import WorkerProcess
from tests.fixtures.capture import CaptureProcess
from tests.fixtures.sealing import SEALED
from tests.fixtures.waiting import wait_until

PARTITIONS = 4


class RoutesStack:
    def __init__(self, dsn: str, bootstrap: str, prefix: str, directory: Path) -> None:
        self.dsn, self.kafka, self._directory = dsn, Kafka(bootstrap=bootstrap, topic_prefix=prefix), directory
        ensure_topics(self.kafka, FLOW)
        self.capture = CaptureProcess(
            dsn=dsn,
            kafka=bootstrap,
            prefix=prefix,
            log=directory / "capture.log",
            settings={
                "heartbeat_s": "1",
                "sweep_s": "0.3",
                "slot": "routes_" + "".join(filter(str.isalnum, prefix)).lower(),
            },
        ).wait_ready()
        self.workers: list[WorkerProcess] = []
        self.db = psycopg.connect(dsn, autocommit=True)
        # Of each topic the id that it had last: one that is made again has another.
        self._ids: dict[str, str] = {}

    def ensure_worker(self) -> None:
        if not any(worker.is_alive for worker in self.workers):
            self.start()

    def stop_workers(self) -> None:
        for worker in self.workers:
            if worker.is_alive:
                worker.kill()

    def drop_all(self) -> None:
        for (name,) in self.db.execute("select name from _tidewire.topics").fetchall():
            self.define(do="DROP TOPIC", topic=name, if_exists=False)

    def start(self) -> WorkerProcess:
        environ = {
            "TIDEWIRE_POSTGRES_DSN": self.dsn,
            "TIDEWIRE_KAFKA_BOOTSTRAP": self.kafka.bootstrap,
            "TIDEWIRE_KAFKA_TOPIC_PREFIX": self.kafka.topic_prefix,
            "TIDEWIRE_RECOMPUTE_RECHECK_S": "1",
            **SEALED,
        }
        log = self._directory / f"routes-{len(self.workers)}.log"
        self.workers.append(WorkerProcess(environ, log, "services.recompute.tools.routes").wait_ready())
        return self.workers[-1]

    def end(self) -> None:
        self.db.close()
        for worker in self.workers:
            if worker.is_alive:
                worker.wake()
                worker.kill()
        self.capture.end()

    def define(self, **asked: object) -> None:
        self.db.execute("call _tidewire_topics.statement(%s)", [json.dumps({"at": {}, **asked})])

    def create(self, topic: str, partitions: int = 1) -> None:
        self.define(
            do="CREATE TOPIC", topic=topic, schema=topic.split(".")[0], if_not_exists=False, partitions=partitions
        )
        row = self.db.execute("select topic_id from _tidewire.topics where name = %s", [topic]).fetchone()
        assert row is not None
        self._ids[topic] = row[0]

    def route(self, topic: str, table: str, op: str, mode: str = "Full", **more: object) -> None:
        self.define(
            do="ALTER TOPIC",
            action="add source",
            topic=topic,
            source_schema="app",
            source_table=table,
            op=op,
            payload_mode=mode,
            **more,
        )

    def settle(self) -> None:
        """Until the routes have come behind everything that was committed before this call."""
        barrier.emit(self.db)
        lsn = int(
            self.db.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()[0]  # type: ignore[index]
        )
        self.db.execute("create table if not exists app.settle (n int primary key)")
        self.db.execute("insert into app.settle select coalesce(max(n), 0) + 1 from app.settle")
        wait_until(lambda: self._reached() > lsn, self.output)

    def output(self) -> str:
        return "\n".join(worker.output() for worker in self.workers[-2:])

    def _reached(self) -> int:
        places = [standing(self.kafka, number).position for number in range(PARTITIONS)]
        return min(0 if place is None else place.lsn for place in places)

    def records(self, topic: str, partition: int = 0) -> list[TopicMessage]:
        """All committed records, marks included."""
        name = topic_name(self._ids[topic])
        reader = Reader(self.kafka, name, partition, client_id="test")
        try:
            low, _ = reader.low_and_high()
        except TopicMissing:
            return []
        finally:
            reader.close()
        found = read_to_end(self.kafka, name, partition, low, client_id="test")
        return [TopicMessage.FromString(message.value() or b"") for message in found]

    def messages(self, topic: str, partition: int = 0) -> list[TopicMessage]:
        return [
            one for one in self.records(topic, partition) if one.operation != TopicOperation.TOPIC_OPERATION_UNSPECIFIED
        ]

    def payloads(self, topic: str) -> list[Any]:
        return [json.loads(one.payload) for one in self.messages(topic)]
