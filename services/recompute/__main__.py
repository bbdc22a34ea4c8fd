"""Builds recompute and runs it: `python -m services.recompute`."""

import logging
import socket

from structlog.typing import FilteringBoundLogger

from proto.topics import FLOW
from services.chassis import health, logs
from services.chassis.changes import ChangesFollower
from services.chassis.kafka import ensure_topics
from services.chassis.metrics import new_registry
from services.chassis.run import Stop, entry
from services.recompute.inbound.base import Source
from services.recompute.inbound.changes import CommitLog
from services.recompute.inbound.queries import Queries
from services.recompute.metrics import Metrics
from services.recompute.outbound.deltas import Deltas
from services.recompute.outbound.spark import Spark
from services.recompute.settings import Settings
from services.recompute.worker import Worker

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
    metrics = Metrics(registry)
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
    queries = Queries(settings.kafka, session_timeout_ms=own.session_timeout_ms)
    deltas = Deltas(settings.kafka, worker_id=socket.gethostname(), while_waiting=progress.beat)
    worker = Worker(
        queries=queries,
        log=commit_log,
        source=Source(settings.postgres),
        deltas=deltas,
        spark=spark,
        metrics=metrics,
        events=log,
        barrier_wait_s=own.barrier_wait_s,
    )
    progress.not_ready("waiting for partitions")
    while not stop.requested:
        worker.turn()
        progress.beat()
        _show(progress, queries, deltas)
    deltas.flush(LAST_FLUSH_S)
    worker.close()
    queries.close()
    follower.close()
    spark.stop()
    log.info("stopped")


def _show(progress: health.Progress, queries: Queries, deltas: Deltas) -> None:
    """Ready means: partitions are ours and the log takes our deltas."""
    trouble = deltas.trouble
    if trouble is not None:
        progress.not_ready(f"Kafka does not take records: {trouble}")
    elif queries.owns_any:
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
