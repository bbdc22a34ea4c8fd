"""Builds retention and runs it: `python -m services.retention`, with `--dry-run` once, saying what it would trim."""

import sys
import time
from collections.abc import Callable
from functools import partial

import redis
from structlog.typing import FilteringBoundLogger

from proto.streams.changes import GapInChanges
from proto.topics import FLOW
from services.chassis import health, logs
from services.chassis.kafka import KafkaUnreachable, OffsetOutOfRange, TopicMissing, ensure_topics
from services.chassis.metrics import new_registry
from services.chassis.redis import RedisUnreachable, connect_sync
from services.chassis.run import Stop, entry
from services.chassis.status import StatusWriter
from services.retention.flow.run import RetentionRun
from services.retention.metrics import Metrics
from services.retention.outbound.horizons import Horizons
from services.retention.settings import Settings

DRY_RUN = "--dry-run"
BEAT_S = 2.0
# What ends with time, or is another thing when it is looked at again: a run that fails has only trimmed too little.
TROUBLES = (
    KafkaUnreachable,
    OffsetOutOfRange,
    TopicMissing,
    GapInChanges,
    TimeoutError,
    RedisUnreachable,
    redis.RedisError,
)


def main(settings: Settings, *, is_dry: bool = False) -> None:
    log = logs.configure("retention", "warning" if is_dry else "info")
    stop = Stop().on_signals()
    progress = health.Progress(dead_after_s=600.0)
    registry = new_registry("retention")
    metrics = Metrics(registry)
    ensure_topics(settings.kafka, FLOW)
    client = connect_sync(settings.redis)
    run = RetentionRun(
        settings.kafka,
        Horizons(client, settings.kafka),
        settings.retention,
        metrics=metrics,
        log=log,
        clock_us=lambda: time.time_ns() // 1000,
    )
    if is_dry:
        print(*(run.run(is_dry=True) or ["nothing to trim"]), sep="\n")
        return
    health.serve(settings.http, registry, progress)
    status = StatusWriter(settings.kafka, "retention", registry, progress).start()
    while not stop.requested:
        attempt(run.run, progress, metrics, log)
        _rest(settings.retention.interval_s, stop, progress)
    status.close()
    log.info("stopped")


def attempt(run: Callable[[], object], progress: health.Progress, metrics: Metrics, log: FilteringBoundLogger) -> None:
    """One run, which may fail: the next one finds what this one has left."""
    try:
        run()
        progress.ready()
    except TROUBLES as error:
        metrics.failures.inc()
        log.warning("run_failed", reason=str(error))
        progress.not_ready(str(error))


def _rest(seconds: float, stop: Stop, progress: health.Progress) -> None:
    end_s = time.monotonic() + seconds
    while not stop.requested and (left_s := end_s - time.monotonic()) > 0:
        progress.beat()
        stop.wait(min(left_s, BEAT_S))
    progress.beat()


if __name__ == "__main__":
    entry(
        partial(main, is_dry=DRY_RUN in sys.argv[1:]),
        service="retention",
        description="Trims durable topics by their limits and `changes` behind its readers; --dry-run only says what.",
        settings_type=Settings,
        argv=[argument for argument in sys.argv[1:] if argument != DRY_RUN],
    )
