"""Tables held in Spark beside a database under capture, and what PostgreSQL says of them."""

import os
import secrets
import sys
import time
from collections import Counter

import pytest
import structlog

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.topics import FLOW
from services.changelog import barrier
from services.changelog.follower import ChangesFollower
from services.chassis.kafka import ensure_topics
from services.chassis.postgres import Postgres
from services.recompute.core import rendering, storage
from services.recompute.core.catalog import Collation, Column, PgType, Table
from services.recompute.core.limits import ReplicaLimits
from services.recompute.core.rendering import PINNED
from services.recompute.flow.tables.table_set import TableSet
from services.recompute.inbound.changes import CommitLog
from services.recompute.inbound.open_transaction import MOST_BYTES
from services.recompute.outbound.spark.session import Spark
from tests.fixtures.capture import CapturedDatabase

WITHIN_S = 120.0
COLUMNS = """
SELECT a.attname, t.oid, t.typname, a.atttypmod, t.typtype, a.attnotnull, a.attgenerated, t.typcollation <> 0
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
KEY = """
SELECT a.attname FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(attnum, at)
JOIN pg_attribute a ON a.attnum = k.attnum
WHERE i.indrelid = %s AND i.indisprimary AND a.attrelid = i.indrelid ORDER BY k.at
"""


class Replicas:
    """A worker's tables and its log, turned by hand."""

    def __init__(
        self, spark, database, folder, limits=None, part_bytes=1 << 16, by_driver_bytes=0, most_bytes=MOST_BYTES
    ):
        self.spark, self.database, self.folder = spark, database, folder
        ensure_topics(database.kafka, FLOW)
        self._follower = ChangesFollower(database.kafka, client_id="replica-test")
        self._follower.from_near_end(2000)
        self.log = CommitLog(self._follower, most_bytes=most_bytes)
        self.log.catch_up(lambda: None)
        self.settled, self.events = [], []
        self.tables = TableSet(
            spark,
            Postgres(dsn=database.dsn),
            database.kafka,
            self.log,
            folder,
            structlog.wrap_logger(None, processors=[self._note], wrapper_class=structlog.BoundLogger),
            limits=limits or ReplicaLimits(in_memory_rows=0),
            part_bytes=part_bytes,
            by_driver_bytes=by_driver_bytes,
        )

    def _note(self, _logger, _method, event):
        self.events.append(event)
        raise structlog.DropEvent

    def turn(self):
        for commit in self.log.read(0.02):
            self.tables.take(commit)
        self.settled += self.tables.settle()
        self.tables.compact()

    def until(self, condition, within_s=WITHIN_S):
        deadline = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"not within {within_s:.0f} s; settled so far: {self.settled}")
            self.turn()

    def reach(self, barrier_id):
        self.until(lambda: barrier_id in self.log.barriers)
        self.settled += self.tables.settle()

    def load(self, *tables):
        for table in tables:
            self.tables.want(table)
        self.until(lambda: self.has_left(tables) or all(self.tables.is_ready(table.oid) for table in tables))
        assert not self.has_left(tables), self.settled

    def has_left(self, tables):
        return any(one.outcome != "loaded" and one.oid in {table.oid for table in tables} for one in self.settled)

    def rest(self):
        """Turn until compaction and checkpoints have nothing to do."""
        self.turn()
        self.until(lambda: self.tables._compaction.is_idle)

    def compacted(self):
        return sum(event["event"] == "table_compacted" for event in self.events)

    def rows(self, table):
        """The view's rows in PostgreSQL's text."""
        types = [column.type for column in table.columns]
        texts = ", ".join(storage.canonical(t, f"c{at}") for at, t in enumerate(types))
        found = self.spark.session.sql(f"SELECT {texts} FROM {self.tables.view(table.oid)}").toArrow()
        columns = [
            [None if text is None else render(text) for text in column.to_pylist()]
            for render, column in zip(map(renderer, types), found.columns, strict=True)
        ]
        return Counter(zip(*columns, strict=True))

    def retire(self):
        """Give its tables back; the log can still be read."""
        for oid in list(self.tables._tables):
            self.tables.release(oid)

    def close(self):
        self.tables.close()
        self._follower.close()


def renderer(t):
    return rendering.renderer(t, PINNED) if storage.is_typed(t) else str.encode


class Watched:
    """The database under capture."""

    def __init__(self, captured):
        self._captured = captured
        self.dsn, self.kafka = captured.dsn, captured.kafka
        self.connection = captured.connect()
        for name, value in PINNED_TEXT_SETTINGS.items():
            self.connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        self._number = 0

    def connect(self):
        return self._captured.connect()

    def execute(self, statement, *parameters):
        return self.connection.execute(statement, parameters or None)

    def create(self, columns, *, name=None):
        """A table of its own for a test; tracked when this returns."""
        self._number += 1
        name = name or f"t{self._number}"
        self.execute(f"CREATE TABLE {name} ({columns})")
        return self.describe(name)

    def describe(self, name):
        (oid,) = self.execute("SELECT %s::regclass::oid::int8", name).fetchone()
        columns = tuple(
            Column(
                name=column,
                type=PgType(type_oid, type_name, modifier, kind, Collation.BYTES if collated else Collation.NONE),
                not_null=not_null,
                generated=generated,
            )
            for column, type_oid, type_name, modifier, kind, not_null, generated, collated in self.execute(
                COLUMNS, oid
            ).fetchall()
        )
        key = [column for (column,) in self.execute(KEY, oid).fetchall()]
        names = [column.name for column in columns]
        return Table(
            oid=oid, schema="public", name=name, columns=columns, key=tuple(names.index(column) for column in key)
        )

    def rows(self, table):
        with self.connection.cursor().copy(f"COPY (SELECT * FROM ONLY {table.name}) TO STDOUT") as stream:
            return Counter(tuple(None if v is None else v.encode() for v in values) for values in stream.rows())

    def barrier(self):
        return barrier.emit(self.connection)

    def close(self):
        self.connection.close()
        self._captured.end()


@pytest.fixture(scope="package")
def spark():
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    started = Spark(
        master="local[2]", driver_memory="1g", java_options="-XX:+UseSerialGC -XX:TieredStopAtLevel=1", incremental=True
    )
    yield started
    started.stop()


@pytest.fixture(scope="module")
def watched(postgres_server, kafka, tmp_path_factory):
    name = f"replica_{secrets.token_hex(4)}"
    captured = CapturedDatabase(
        postgres_server.create_database(name), kafka, f"{name}.", tmp_path_factory.mktemp("capture")
    )
    captured.start().wait_ready()
    made = Watched(captured)
    yield made
    made.close()
    postgres_server.drop_database(name)


@pytest.fixture
def make_replicas(spark, watched, tmp_path):
    made = []

    def make(**settings):
        made.append(Replicas(spark, watched, tmp_path, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def replicas(make_replicas):
    """Tables without the short cut for small ones: base and overlay, several parts."""
    return make_replicas()
