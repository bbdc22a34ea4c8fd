"""The settings of recompute."""

import tempfile
from pathlib import Path

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres
from services.recompute.core.budget import Budget
from services.recompute.core.limits import Limits


class Recompute(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [recompute] section."""

    # local[*], spark://host:7077 or k8s://…: passed to Spark as it is.
    master: str = "local[*]"
    driver_memory: str = "2g"
    java_options: str = "-XX:+UseSerialGC"
    # Checkpoints of tables and of what readers were told; a folder that outlives the process makes a restart quick.
    folder: str = str(Path(tempfile.gettempdir()) / "tidewire-recompute")
    # A name that is kept over restarts: the group then gives the partitions back at once instead of waiting for the
    # session to time out. Two workers must not have the same.
    worker_id: str | None = None
    # Keep plans and tables of all queries ready, to take over within seconds.
    standby: bool = False
    # How many records before its end the log is read from at the start: the commits in them tell whether a snapshot
    # lags behind the log.
    lookback_records: int = 2000
    # A first result whose barrier was not seen in the log after this time waits for a barrier of our own.
    barrier_wait_s: float = 1.0
    # As short as brokers take by default (group.min.session.timeout.ms): a dead worker's partitions wait for it.
    session_timeout_ms: int = 6_000
    # How often a query that reads the clock is evaluated anew.
    clock_interval_s: float = 5.0
    # Rights and policies are looked at again at least so often (decision 21).
    recheck_s: float = 60.0
    # A result with more rows is refused.
    max_rows: int = 100_000


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: Postgres
    kafka: Kafka
    recompute: Recompute = Recompute()
    source: Budget = Budget()
    replica: Limits = Limits()
    http: Http = Http()
