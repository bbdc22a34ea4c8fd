"""A database under capture with a shop in it, and Spark in this process beside it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import psycopg
import structlog

from services.changelog.follower import ChangesFollower
from services.chassis.postgres import Postgres
from services.recompute.core.catalog import Table
from services.recompute.core.job import Job
from services.recompute.core.planning import plan
from services.recompute.flow.tables.table_set import TableSet
from services.recompute.inbound.changes import CommitLog
from services.recompute.outbound.postgres.catalog import CatalogReader
from services.recompute.outbound.spark.evaluation import Evaluation
from services.recompute.outbound.spark.session import Spark
from services.recompute.settings import Recompute
from tests.e2e.recompute.road import Road
from tests.fixtures.kafka import start_kafka
from tests.fixtures.postgres import start_postgres

SHOP = """
CREATE TABLE customers (id int PRIMARY KEY, region text COLLATE "C" NOT NULL, name text NOT NULL);
CREATE TABLE orders (id bigint PRIMARY KEY, customer int NOT NULL, amount numeric(10,2) NOT NULL,
                     status text COLLATE "C" NOT NULL, placed timestamptz NOT NULL);
INSERT INTO customers SELECT i, 'region ' || i % 50, 'customer ' || i FROM generate_series(1, 10000) i;
INSERT INTO orders SELECT i, 1 + i % 10000, (i * 7 % 100000) / 100.0, (ARRAY['new', 'paid', 'sent', 'void'])[1 + i % 4],
                          '2026-01-01'::timestamptz + i * interval '10 seconds' FROM generate_series(1, {rows}) i;
ANALYZE customers, orders;
"""
PATIENCE_S = 300.0


class Bench:
    """What the parts measure with."""

    def __init__(self, road: Road, folder: Path) -> None:
        self.road, self.folder = road, folder
        self.connection: psycopg.Connection = road.connect()

    @cached_property
    def spark(self) -> Spark:
        own = Recompute()
        return Spark(master=own.master, driver_memory=own.driver_memory, java_options=own.java_options)

    @cached_property
    def tables(self) -> TableSet:
        log = structlog.wrap_logger(None, processors=[_silent], wrapper_class=structlog.BoundLogger)
        postgres = Postgres(dsn=self.road.dsn)
        return TableSet(self.spark, postgres, self.road.kafka, self.log, self.folder / "tables", log)

    @cached_property
    def log(self) -> CommitLog:
        follower = ChangesFollower(self.road.kafka, client_id="bench")
        follower.from_near_end(2000)
        log = CommitLog(follower)
        log.catch_up(lambda: None)
        return log

    @cached_property
    def evaluation(self) -> Evaluation:
        return Evaluation(self.spark, self.tables)

    def job(self, sql: str, *tuples: tuple[bytes | None, ...]) -> Job:
        """The job of a template, its tables loaded."""
        query = self.road.query(sql, *(tuples[0] if tuples else ()))
        with CatalogReader(Postgres(dsn=self.road.dsn, superusers_subscribe=True)) as reader:
            described = reader.describe(query)
        planned = plan(query.template_sql, "", described, query.text_settings)
        assert planned.row_local or planned.full, planned.why_not
        self.load([relation for relation in described.relations.values() if isinstance(relation, Table)])
        lifted = tuple([one.value if one.HasField("value") else None for one in query.parameters])
        moment_us = time.time_ns() // 1000
        return Job(plan=planned, settings=query.text_settings, tuples=tuples or (lifted,), moment_us=moment_us)

    def load(self, tables: list[Table]) -> None:
        for table in tables:
            self.tables.want(table)
        self.until(lambda: all(self.tables.is_ready(table.oid) for table in tables))

    def follow(self) -> None:
        """Take in what the log has; it is told until the next call."""
        self.tables.clear_changes()
        for commit in self.log.read(0.02):
            self.tables.take(commit)
        self.tables.settle()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "it takes too long"
            self.follow()

    def execute(self, statement: str) -> None:
        self.connection.execute(statement.encode())


@contextmanager
def started(*, rows: int) -> Iterator[Bench]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        # The tests' servers do not fsync; the ones that users run do.
        postgres = start_postgres(folder / "postgres", settings={"fsync": "on"})
        with postgres as server, start_kafka(folder / "kafka") as broker:
            road = Road(server.dsn, broker.bootstrap, "bench.", folder)
            try:
                road.capture.wait_ready(120)
                made = Bench(road, folder)
                made.execute(SHOP.replace("{rows}", str(rows)))
                yield made
            finally:
                road.end()


def milliseconds(run: Callable[[], object], *, times: int, warm_up: int) -> float:
    """The median time of a run, after some that do not count."""
    taken = []
    for _ in range(warm_up + times):
        began_s = time.perf_counter()
        run()
        taken.append((time.perf_counter() - began_s) * 1000)
    return median(taken[warm_up:])


def show(what: str, ours: float, reference: float, *, most: float, unit: str = "ms") -> None:
    print(f"{what:<66}{reference:>10,.1f}{ours:>10,.1f} {unit:<4}{ours / reference:>7.2f}  (≤ {most:g})", flush=True)


def _silent(_logger: object, _method: str, _event: object) -> object:
    raise structlog.DropEvent
