"""Builds recompute and runs it: `python -m services.recompute`, or `… explain "SELECT …"`."""

import logging
import socket
import sys
from hashlib import blake2b
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from proto.topics import FLOW
from services.chassis import barrier, health, logs
from services.chassis.changes import ChangesFollower
from services.chassis.kafka import ensure_topics
from services.chassis.metrics import new_registry
from services.chassis.postgres import connect
from services.chassis.run import Stop, entry
from services.recompute.inbound.catalog import CatalogReader
from services.recompute.inbound.changes import CommitLog
from services.recompute.inbound.queries import Queries
from services.recompute.inbound.source import Source
from services.recompute.metrics import Metrics
from services.recompute.outbound.deltas import Deltas
from services.recompute.outbound.emitted_checkpoints import EmittedCheckpoints
from services.recompute.outbound.evaluation import Evaluation
from services.recompute.outbound.session import Spark
from services.recompute.planner import Planner
from services.recompute.settings import Settings
from services.recompute.sourcing import Sourcing
from services.recompute.tables import Tables
from services.recompute.telling import Telling
from services.recompute.ticking import Ticking
from services.recompute.worker import Worker

APPLICATION_NAME = "tidewire recompute"
# A turn may wait for a Spark job over a whole table.
STALE_AFTER_S = 60.0
LAST_FLUSH_S = 5.0
# Spark may be up before Kafka is.
KAFKA_WAIT_S = 60.0


def main(settings: Settings) -> None:
    log: FilteringBoundLogger = logs.configure("recompute", "info")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    stop = Stop().on_signals()
    progress = health.Progress(STALE_AFTER_S)
    registry = new_registry("recompute")
    health.serve(settings.http, registry, progress)
    progress.not_ready("Spark is starting")
    own = settings.recompute
    spark = Spark(master=own.master, driver_memory=own.driver_memory, java_options=own.java_options)
    log.info("spark_started", master=own.master)
    ensure_topics(settings.kafka, FLOW, timeout_s=KAFKA_WAIT_S)
    follower = ChangesFollower(settings.kafka, client_id="recompute")
    follower.from_near_end(own.lookback_records)
    commit_log = CommitLog(follower)
    commit_log.catch_up(progress.beat)
    queries = Queries(
        settings.kafka, session_timeout_ms=own.session_timeout_ms, worker_id=own.worker_id, standby=own.standby
    )
    folder = _folder(settings)
    deltas = Deltas(
        settings.kafka,
        worker_id=own.worker_id or socket.gethostname(),
        checkpoints=EmittedCheckpoints(folder / "deltas"),
        while_waiting=progress.beat,
    )
    worker = _worker(settings, folder, spark, commit_log, queries, deltas, Metrics(registry), log)
    progress.not_ready("waiting for partitions")
    while not stop.requested:
        worker.turn()
        progress.beat()
        _show(progress, queries, deltas, standby=own.standby)
    deltas.flush(LAST_FLUSH_S)
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
    metrics: Metrics,
    log: FilteringBoundLogger,
) -> Worker:
    own = settings.recompute

    def emit_barrier() -> str:
        with connect(settings.postgres, application_name=APPLICATION_NAME) as connection:
            return barrier.emit(connection)

    tables = Tables(
        spark, settings.postgres, settings.kafka, commit_log, folder / "tables", log, limits=settings.replica
    )
    telling = Telling(deltas, commit_log, metrics, emit_barrier=emit_barrier, barrier_wait_s=own.barrier_wait_s)
    return Worker(
        queries=queries,
        log=commit_log,
        deltas=deltas,
        planner=Planner(lambda: CatalogReader(settings.postgres), emit_barrier, log),
        tables=tables,
        ticking=Ticking(
            Evaluation(spark, tables, max_rows=own.max_rows),
            tables,
            commit_log,
            telling,
            metrics=metrics,
            events=log,
            clock_interval_s=own.clock_interval_s,
        ),
        sourcing=Sourcing(
            Source(settings.postgres, settings.source), commit_log, telling, events=log, timer_s=own.clock_interval_s
        ),
        telling=telling,
        metrics=metrics,
        events=log,
        recheck_s=own.recheck_s,
    )


def _folder(settings: Settings) -> Path:
    """A folder of its own for each stack: oids and offsets mean nothing in another one."""
    kafka = settings.kafka
    stack = f"{kafka.bootstrap}|{kafka.topic_prefix}|{settings.postgres.address}"
    return Path(settings.recompute.folder) / blake2b(stack.encode(), digest_size=8).hexdigest()


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
    if sys.argv[1:2] == ["explain"]:
        from services.recompute import explain

        sys.exit(explain.main(sys.argv[2:]))
    entry(
        main,
        service="recompute",
        description="Keeps the results of queries on Spark, and writes how they change to the topic `deltas`; "
        '`explain "SELECT …"` says how it would keep a query.',
        settings_type=Settings,
    )
