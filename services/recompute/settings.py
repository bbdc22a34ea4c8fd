"""The settings of recompute."""

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres
from services.chassis.seal import Seal
from services.recompute.core.budget import Budget
from services.recompute.core.limits import ReplicaLimits


class Recompute(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [recompute] section."""

    # local[*], spark://host:7077 or k8s://…: passed to Spark as it is.
    master: str = "local[*]"
    driver_memory: str = "2g"
    java_options: str = "-XX:+UseSerialGC"
    # Checkpoints of tables and of what readers were told; a folder that outlives the process makes a restart quick. If
    # none is given they are in one that goes with the process.
    folder: str | None = None
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
    # Rights and policies are looked at again at least so often; what they changed is closed within 60 s (decision 21).
    recheck_s: float = 20.0
    # How long a Spark job may take: one that the loop waits for, a first one, which templates may share, and one
    # of a single template beside the loop. What takes longer is left to PostgreSQL, and tried again later.
    tick_deadline_s: float = 2.0
    first_deadline_s: float = 5.0
    job_deadline_s: float = 10.0
    # A template that was under way when the worker ended, twice, is refused for so long.
    quarantine_s: float = 600.0
    # A result with more rows is refused.
    max_rows: int = 100_000
    # The share of Spark's results that are compared with PostgreSQL's answer at the same commit, within the budget of
    # [source]; one that differs is left to PostgreSQL from then on, counted and logged. 0: none.
    verify: float = 0.01
    # Keep results by incremental operators where that is possible: at the cost of the change, not of the table. The
    # worker then needs a JDK (javac).
    incremental: bool = False
    # What operators and the rows of their tables may take of the driver's memory; beyond it templates are evaluated
    # whole. It must be well below driver_memory.
    incremental_mb: int = 512


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    postgres: Postgres
    kafka: Kafka
    seal: Seal
    recompute: Recompute = Recompute()
    source: Budget = Budget()
    replica: ReplicaLimits = ReplicaLimits()
    http: Http = Http()
