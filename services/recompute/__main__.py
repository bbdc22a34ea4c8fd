"""Builds recompute and runs it: `python -m services.recompute`."""

import logging
import socket
import sys
from contextlib import nullcontext
from functools import partial
from hashlib import blake2b
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from proto.topics import FLOW
from services.changelog import barrier
from services.changelog.follower import ChangesFollower
from services.chassis import health, logs
from services.chassis.folders import private_folder
from services.chassis.kafka import ensure_topics
from services.chassis.metrics import new_registry
from services.chassis.postgres import connect
from services.chassis.run import Stop, end_at_once, entry
from services.chassis.status import StatusWriter
from services.recompute.flow.failures import Failures
from services.recompute.flow.incremental_lane import IncrementalLane
from services.recompute.flow.judge import Judge
from services.recompute.flow.notify import NotifyQueries
from services.recompute.flow.own_barriers import OwnBarriers
from services.recompute.flow.planner import Planner
from services.recompute.flow.publisher import Publisher
from services.recompute.flow.slow_lane import SlowLane
from services.recompute.flow.source_runs import SourceRuns
from services.recompute.flow.spark_tick import JobDeadlines, SparkTick
from services.recompute.flow.status import StatusReport
from services.recompute.flow.tables.table_set import TableSet
from services.recompute.flow.worker import Worker
from services.recompute.inbound.changes import CommitLog
from services.recompute.inbound.queries import Queries
from services.recompute.inbound.result_requests import ResultRequests
from services.recompute.metrics import Metrics
from services.recompute.outbound.deltas import Deltas
from services.recompute.outbound.emitted_checkpoints import EmittedCheckpoints
from services.recompute.outbound.notifications import Notifications
from services.recompute.outbound.postgres.catalog import CatalogReader
from services.recompute.outbound.postgres.registrations import Registrations
from services.recompute.outbound.postgres.source import Source
from services.recompute.outbound.spark.deadlines import Deadlines
from services.recompute.outbound.spark.evaluation import Evaluation
from services.recompute.outbound.spark.incremental import Operators
from services.recompute.outbound.spark.session import Spark
from services.recompute.outbound.underway import UnderWay, blame
from services.recompute.settings import Recompute, Settings
from services.recompute.tools.routes import start_routes

APPLICATION_NAME = "tidewire recompute"
STALE_AFTER_S = 10.0
# Jobs have deadlines of a few seconds: a loop without a turn for this long is dead. The first turn waits for Spark.
DEAD_AFTER_S = 60.0
START_WITHIN_S = 600.0
UNDER_WAY = "under-way"
# Deeply nested statements need deep recursion.
RECURSIONS = 5_000
LAST_FLUSH_S = 5.0
# Spark may be up before Kafka is.
KAFKA_WAIT_S = 60.0


def main(settings: Settings) -> None:
    log: FilteringBoundLogger = logs.configure("recompute", "info")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    sys.setrecursionlimit(RECURSIONS)
    stop = Stop().on_signals()
    progress = health.Progress(STALE_AFTER_S, dead_after_s=DEAD_AFTER_S, start_within_s=START_WITHIN_S)
    registry = new_registry("recompute")
    health.serve(settings.http, registry, progress)
    folder = _folder(settings)
    die = partial(_die, folder / UNDER_WAY)
    progress.watch(die)
    start_routes(settings, registry, progress.part("routes"), log, stop, die)
    progress.not_ready("Spark is starting")
    own = settings.recompute
    spark = Spark(
        master=own.master, driver_memory=own.driver_memory, java_options=own.java_options, incremental=own.incremental
    )
    spark.on_jvm_end(die)
    log.info("spark_started", master=own.master)
    ensure_topics(settings.kafka, FLOW, timeout_s=KAFKA_WAIT_S)
    follower = ChangesFollower(settings.kafka, client_id="recompute")
    follower.from_near_end(own.lookback_records)
    commit_log = CommitLog(follower)
    commit_log.catch_up(progress.beat)
    queries = Queries(
        settings.kafka,
        settings.seal,
        session_timeout_ms=own.session_timeout_ms,
        worker_id=own.worker_id,
        standby=own.standby,
        log=log,
    )
    deltas = Deltas(
        settings.kafka,
        worker_id=own.worker_id or socket.gethostname(),
        checkpoints=EmittedCheckpoints(folder / "deltas"),
        while_waiting=progress.beat,
    )
    metrics, report = Metrics(registry), StatusReport()
    notifications = Notifications(
        settings.kafka, worker_id=own.worker_id or socket.gethostname(), while_waiting=progress.beat
    )
    notify = NotifyQueries(
        Registrations(settings.postgres), notifications, ResultRequests(settings.kafka, settings.seal), log
    )
    worker = _worker(settings, folder, spark, commit_log, queries, deltas, notify, metrics, log)
    status = StatusWriter(settings.kafka, "recompute", registry, progress, add=report.add).start()
    progress.not_ready("waiting for partitions")
    while not stop.requested:
        try:
            worker.turn()
        except Exception:
            if spark.is_lost:
                blame(folder / UNDER_WAY)
            raise
        progress.beat()
        metrics.reached_lsn.set(commit_log.reached)
        report.refresh(worker)
        _show(progress, queries, deltas, standby=own.standby)
    status.close()
    deltas.flush(LAST_FLUSH_S)
    notifications.flush(LAST_FLUSH_S)
    worker.close()
    queries.close()
    follower.close()
    spark.stop()
    log.info("stopped")


def _worker(
    settings: Settings,
    folder: Path,
    spark: Spark,
    commit_log: CommitLog,
    queries: Queries,
    deltas: Deltas,
    notify: NotifyQueries,
    metrics: Metrics,
    log: FilteringBoundLogger,
) -> Worker:
    own = settings.recompute

    def emit_barrier() -> str:
        with connect(settings.postgres, application_name=APPLICATION_NAME) as connection:
            return barrier.emit(connection)

    catalog = CatalogReader(settings.postgres)
    tables = TableSet(
        spark, settings.postgres, settings.kafka, commit_log, folder / "tables", log, limits=settings.replica
    )
    failures = Failures(metrics, log)
    publisher = Publisher(
        deltas,
        commit_log,
        metrics,
        failures,
        own_barriers=OwnBarriers(emit_barrier, log),
        barrier_wait_s=own.barrier_wait_s,
    )
    under_way = UnderWay(folder / UNDER_WAY, quarantine_s=own.quarantine_s)
    source_runs = SourceRuns(
        Source(settings.postgres, settings.source), commit_log, publisher, failures, timer_s=own.clock_interval_s
    )
    judge = Judge(source_runs, commit_log, metrics, log, folder / "differing", share=own.verify)
    publisher.on_result = judge.consider
    worker = Worker(
        queries=queries,
        commit_log=commit_log,
        deltas=deltas,
        planner=Planner(lambda: nullcontext(catalog), emit_barrier, failures),
        tables=tables,
        spark_tick=_spark_tick(own, spark, tables, commit_log, publisher, under_way, failures, metrics, log),
        source_runs=source_runs,
        publisher=publisher,
        judge=judge,
        notify=notify,
        under_way=under_way,
        failures=failures,
        metrics=metrics,
        log=log,
        recheck_s=own.recheck_s,
    )
    judge.distrust = worker.distrust
    return worker


def _spark_tick(
    own: Recompute,
    spark: Spark,
    tables: TableSet,
    commit_log: CommitLog,
    publisher: Publisher,
    under_way: UnderWay,
    failures: Failures,
    metrics: Metrics,
    log: FilteringBoundLogger,
) -> SparkTick:
    die = partial(_die, under_way.folder)
    limits = JobDeadlines(tick_s=own.tick_deadline_s, company_s=own.first_deadline_s, alone_s=own.job_deadline_s)
    deadlines = Deadlines(spark, on_stuck=die)
    incremental = None
    if own.incremental:
        incremental = IncrementalLane(
            Operators(spark, spark.folder, limit=lambda: deadlines.within(limits.tick_s)),
            tables,
            commit_log,
            publisher,
            metrics,
            log,
            under_way=under_way,
            failures=failures,
            memory_mb=own.incremental_mb,
            max_rows=own.max_rows,
        )
    return SparkTick(
        Evaluation(spark, tables, max_rows=own.max_rows, limit=lambda: deadlines.within(limits.tick_s)),
        SlowLane(spark, max_rows=own.max_rows, on_stuck=die),
        tables,
        commit_log,
        publisher,
        under_way=under_way,
        failures=failures,
        metrics=metrics,
        limits=limits,
        incremental=incremental,
        clock_interval_s=own.clock_interval_s,
    )


def _die(noted: Path, reason: str) -> None:
    """End the process: one that lost its JVM, a thread or its loop does not recover by itself."""
    blame(noted)
    end_at_once("recompute", reason)


def _folder(settings: Settings) -> Path:
    """A folder of its own for each stack: oids and offsets mean nothing in another one."""
    kafka = settings.kafka
    stack = f"{kafka.bootstrap}|{kafka.topic_prefix}|{settings.postgres.address}"
    return (
        private_folder(settings.recompute.folder, service="recompute")
        / blake2b(stack.encode(), digest_size=8).hexdigest()
    )


def _show(progress: health.Progress, queries: Queries, deltas: Deltas, *, standby: bool) -> None:
    """Ready means: partitions are ours, or we stand by, and the log takes our deltas."""
    trouble = deltas.trouble
    if trouble is not None:
        progress.not_ready(f"Kafka does not take records: {trouble}")
    elif queries.owns_any or standby:
        progress.ready()
    else:
        progress.not_ready("another worker owns all partitions")


if __name__ == "__main__":
    entry(
        main,
        service="recompute",
        description="Keeps the results of queries on Spark, and writes how they change to the topic `deltas`.",
        settings_type=Settings,
    )
