"""Capture and recompute as processes; the test plays the registry, and reads `deltas` as fanout and gateways do."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from msgspec.structs import asdict
from psycopg import pq

from proto.partitions import PARTITIONS, partition_of
from proto.rows import ResultRow
from proto.streams.deltas import PartitionReader
from proto.streams.parts import Assembler
from proto.tidewire.v1.commands_pb2 import Owner, Parameter, Subscribe, TextSettings
from proto.tidewire.v1.queries_pb2 import Query, SnapshotWanted
from proto.topics import DELTAS, FLOW, QUERIES
from services.changelog import barrier
from services.chassis.kafka import Kafka, Writer, ensure_topics
from services.chassis.kafka.partitions import PartitionsReader
from services.devstack.home import last_lines
from services.recompute.core.limits import ReplicaLimits
from services.registry.core.identity import query_of
from tests.e2e.recompute.follower import Follower
from tests.e2e.recompute.worker import WorkerProcess
from tests.fixtures.capture import CaptureProcess
from tests.fixtures.sealing import SEAL, SEALED

SUPERUSER = "postgres"
PLAIN = TextSettings(
    time_zone="UTC", date_style="ISO, MDY", interval_style="postgres", bytea_output="hex", extra_float_digits=1
)
_LIMITS = ReplicaLimits()
# As long as a busy machine may take for anything that is not broken.
PATIENCE_S = 120.0


class Road:
    """One database, its log, and the workers that a test starts on it."""

    def __init__(self, dsn: str, kafka: str, prefix: str, directory: Path) -> None:
        self.dsn = dsn
        self.kafka = Kafka(bootstrap=kafka, topic_prefix=prefix)
        self._directory = directory
        self.workers: list[WorkerProcess] = []
        ensure_topics(self.kafka, FLOW)
        self.capture = CaptureProcess(
            dsn=dsn,
            kafka=kafka,
            prefix=prefix,
            log=directory / "capture.log",
            # Of its own: slots belong to the server, and this one may outlive the processes.
            settings={
                "slot": re.sub("[^a-z0-9_]", "_", prefix.lower()),
                "heartbeat_s": "1",
                "sweep_s": "0.3",
                "wal_sender_timeout_ms": "2000",
            },
        )
        self._queries = Writer(self.kafka, QUERIES.name, client_id="test")
        self._deltas = PartitionsReader(self.kafka, DELTAS.name, client_id="test")
        self._deltas.add(dict.fromkeys(range(PARTITIONS), 0))
        self._fences = [PartitionReader() for _ in range(PARTITIONS)]
        self._parts = Assembler()
        self._followers: dict[bytes, list[Follower]] = {}
        self._wanted: dict[bytes, list[SnapshotWanted]] = {}
        # Its transactions only ask; it is kept open since connecting costs more than most answers.
        self._asking = psycopg.connect(dsn, autocommit=True)
        self.fences_read = 0

    def start_worker(
        self,
        name: str = "one",
        *,
        statement_timeout_ms: int = 5000,
        limits: ReplicaLimits = _LIMITS,
        program: str = "services.recompute",
        **settings: str,
    ) -> WorkerProcess:
        """A worker that keeps its name and folder over restarts; it may not be ready yet."""
        own = {
            "master": "local[2]",
            "java_options": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "driver_memory": "1g",
            "folder": str(self._directory / name),
            "worker_id": name,
            "clock_interval_s": "1",
            "recheck_s": "2",
            **settings,
        }
        environ = {
            "TIDEWIRE_POSTGRES_DSN": self.dsn,
            "TIDEWIRE_POSTGRES_SUPERUSERS_SUBSCRIBE": "true",
            "TIDEWIRE_KAFKA_BOOTSTRAP": self.kafka.bootstrap,
            "TIDEWIRE_KAFKA_TOPIC_PREFIX": self.kafka.topic_prefix,
            **SEALED,
            **{f"TIDEWIRE_RECOMPUTE_{key.upper()}": value for key, value in own.items()},
            **{f"TIDEWIRE_REPLICA_{key.upper()}": str(rows) for key, rows in asdict(limits).items()},
            "TIDEWIRE_SOURCE_STATEMENT_TIMEOUT_MS": str(statement_timeout_ms),
            "TIDEWIRE_SOURCE_CONCURRENCY": "2",
        }
        worker = WorkerProcess(environ, self._directory / f"recompute-{len(self.workers)}-{name}.log", program)
        self.workers.append(worker)
        return worker

    @property
    def worker(self) -> WorkerProcess:
        """The one that runs, or the last of those that do."""
        return [worker for worker in self.workers if worker.is_alive][-1]

    def leave(self, worker: WorkerProcess, within_s: float = 60.0) -> int:
        """End one in good order, as a deployment would; what it ended with before, if it has ended."""
        if worker.is_alive:
            worker.process.terminate()
        deadline = time.monotonic() + within_s
        while worker.is_alive and time.monotonic() < deadline:
            self.pump()
        worker.end()
        self.workers.remove(worker)
        return worker.process.returncode

    def connect(self, **parameters: object) -> psycopg.Connection:
        return psycopg.connect(self.dsn, **{"autocommit": True, **parameters})

    def query(
        self,
        sql: str,
        *parameters: bytes | None,
        filter: str = "",
        role: str = SUPERUSER,
        settings: TextSettings = PLAIN,
        search_path: Sequence[str] = ("public",),
        settings_read: dict[str, str] | None = None,
    ) -> Query:
        """The query as the registry would write it."""
        return query_of(
            Subscribe(
                sql=sql,
                parameters=[Parameter(value=value) for value in parameters],
                filter=filter,
                owner=Owner(role=role, connection_id="test"),
                text_settings=settings,
                search_path=search_path,
                settings_read=settings_read or {},
            )
        )

    def ask(self, query: Query, *, barrier_id: str | None = None) -> Follower:
        """Begin to follow, without waiting for the first result; without a barrier one is emitted now."""
        follower = Follower(query)
        self._followers.setdefault(query.query_id, []).append(follower)
        self._want(query, follower.request_id, barrier.emit(self._asking) if barrier_id is None else barrier_id)
        return follower

    def subscribe(
        self, sql: str, *parameters: bytes | None, within_s: float = PATIENCE_S, **options: object
    ) -> Follower:
        """Follow a query, and wait for its first result or error."""
        follower = self.ask(self.query(sql, *parameters, **options))
        self.until(lambda: follower.has_begun, f"the first result of {sql}", within_s)
        return follower

    def good(self, sql: str, *parameters: bytes | None, **options: object) -> Follower:
        """Follow a query whose first result must be PostgreSQL's answer."""
        follower = self.subscribe(sql, *parameters, **options)
        assert follower.error is None, follower.error
        assert follower.rows == Counter(self.answer(follower.query)), sql
        return follower

    def catch_up(self, *followers: Follower, within_s: float = PATIENCE_S) -> None:
        """Ask for whole results behind a barrier of now: all that was committed before has been told then."""
        barrier_id = barrier.emit(self._asking)
        requests = {uuid4().bytes: follower for follower in followers}
        for request_id, follower in requests.items():
            follower.asked.add(request_id)
            self._want(follower.query, request_id, barrier_id)
        self.until(
            lambda: all(request_id in follower.answered for request_id, follower in requests.items()),
            lambda: f"whole results of {[one.query.sql for id, one in requests.items() if id not in one.answered]}",
            within_s,
        )

    def holds(self, *followers: Follower, within_s: float = PATIENCE_S) -> None:
        """Catch up, while nobody writes: what is held must be PostgreSQL's answer."""
        self.catch_up(*followers, within_s=within_s)
        for follower in followers:
            assert follower.error is None, f"{follower.error} of {follower.query.sql}"
            assert follower.rows == Counter(self.answer(follower.query)), follower.query.sql

    def stop(self, *followers: Follower) -> None:
        """Nobody is subscribed any more."""
        for follower in followers:
            left = self._followers[follower.query.query_id]
            left.remove(follower)
            if not left:
                del self._followers[follower.query.query_id], self._wanted[follower.query.query_id]
                key = follower.query.query_id
                self._queries.send(None, key=key, partition=partition_of(key))
        self._queries.flush(10)

    def stop_all(self) -> None:
        self.stop(*(follower for followers in self._followers.values() for follower in list(followers)))

    def pump(self, wait_s: float = 0.05) -> None:
        """Read what is at hand, and hand it to those whose query it is about."""
        for message in self._deltas.read(wait_s):
            record = DELTAS.decode(message.value())
            self.fences_read += record.WhichOneof("body") == "fence"
            record = self._fences[message.partition()].feed(record)
            if record is None:
                continue
            request_id = record.snapshot.request_id
            delta = record.snapshot.result if record.HasField("snapshot") else record.delta
            whole = self._parts.feed(delta, request_id)
            if whole is not None:
                for follower in self._followers.get(whole.query_id, ()):
                    follower.take(whole, request_id)

    def until(self, condition: Callable[[], bool], what: str | Callable[[], str], within_s: float = PATIENCE_S) -> None:
        """Pump until it holds."""
        deadline = time.monotonic() + within_s
        while not condition():
            self.pump()
            if time.monotonic() > deadline:
                words = what if isinstance(what, str) else what()
                raise TimeoutError(f"not within {within_s:.0f} s: {words}\n{self._logs()}")

    def answer(self, query: Query) -> list[ResultRow]:
        """What PostgreSQL prints for the subscriber's own SELECT, in order."""
        with self._asking.transaction():
            become(self._asking, query)
            statement = query.sql
            if query.filter:
                statement = f"SELECT * FROM ({query.sql}) AS result WHERE ({query.filter})"
            given = [one.value if one.HasField("value") else None for one in query.parameters]
            count = _highest_parameter(query.sql)
            result = self._asking.pgconn.exec_params(statement.encode(), given[:count])
            assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
            columns = range(result.nfields)
            return [tuple(result.get_value(row, column) for column in columns) for row in range(result.ntuples)]

    def strategy(self, follower: Follower) -> str:
        """What the workers said last of how they keep it."""
        said = [line for worker in self.workers for line in worker.said("query_planned")]
        return [line["strategy"] for line in said if line["template"] == follower.query.template_id.hex()][-1]

    def end(self) -> None:
        self._asking.close()
        self._deltas.close()
        self._queries.flush(5)
        self._queries.close()
        for worker in self.workers:
            worker.end()
        self.capture.end()

    def want_only(self, query: Query, request_ids: list[bytes], barrier_id: str) -> None:
        """A record that names these requests and no earlier ones."""
        self._put(query, [_wanted(request_id, barrier_id) for request_id in request_ids])

    def _want(self, query: Query, request_id: bytes, barrier_id: str) -> None:
        wanted = self._wanted.setdefault(query.query_id, [])
        wanted.append(_wanted(request_id, barrier_id))
        self._put(query, wanted)

    def _put(self, query: Query, wanted: list[SnapshotWanted]) -> None:
        record = Query()
        record.CopyFrom(query)
        record.snapshots.extend(wanted)
        value, key = SEAL.sealed(QUERIES, record), query.query_id
        self._queries.send(value, key=key, partition=partition_of(key))
        self._queries.poll(0)

    def _logs(self) -> str:
        logs = [worker.log for worker in self.workers[-2:]]
        return "\n".join(f"--- {log.name}\n{last_lines(log, 25)}" for log in (*logs, self.capture.log))


def _wanted(request_id: bytes, barrier_id: str) -> SnapshotWanted:
    return SnapshotWanted(request_id=request_id, gateway_id="test", delivery_partition=0, barrier_id=barrier_id)


def become(connection: psycopg.Connection, query: Query) -> None:
    """Role, names and text as the subscriber's connection has them, until the transaction ends."""
    text = query.text_settings
    path = ", ".join(psycopg.sql.Identifier(name).as_string() for name in query.search_path)
    settings = {
        "search_path": path,
        "timezone": text.time_zone,
        "datestyle": text.date_style,
        "intervalstyle": text.interval_style,
        "bytea_output": text.bytea_output,
        "extra_float_digits": str(text.extra_float_digits),
        **query.settings_read,
        "role": query.role,
    }
    for name, value in settings.items():
        connection.execute("SELECT set_config(%s, %s, true)", [name, value])


def _highest_parameter(sql: str) -> int:
    number = 0
    while f"${number + 1}" in sql:
        number += 1
    return number


@contextmanager
def writing(work: Callable[[], None]) -> Iterator[None]:
    """Run something in a thread meanwhile; what it raises is raised here."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        yield
        future.result()
