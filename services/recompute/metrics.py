"""Metrics of recompute."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.ticks = Counter("tidewire_recompute_ticks_total", "Ticks that ran a Spark job.", registry=registry)
        self.tick_seconds = Histogram(
            "tidewire_recompute_tick_seconds",
            "Time of a tick, from the changes to the deltas sent.",
            buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
            registry=registry,
        )
        self.deltas = Counter("tidewire_recompute_deltas_total", "Deltas and snapshots written.", registry=registry)
        self.queries = Gauge("tidewire_recompute_queries", "Queries whose results are kept.", registry=registry)
        self.reached_lsn = Gauge(
            "tidewire_recompute_reached_lsn", "Position up to which it has read.", registry=registry
        )
        self.unreadable_marks = Counter(
            "tidewire_recompute_unreadable_marks_total",
            "DDL marks that could not be read; each puts every query in doubt.",
            registry=registry,
        )
        self.planning_errors = Counter(
            "tidewire_recompute_planning_errors_total",
            "Errors in the planning code itself; the query is left to PostgreSQL.",
            registry=registry,
        )
        self.verified = Counter(
            "tidewire_recompute_verified_total",
            "Results compared with PostgreSQL's answer at the same place of the log, by what was found.",
            ("outcome",),
            registry=registry,
        )
        self.incremental = Gauge(
            "tidewire_recompute_incremental_templates", "Templates kept by incremental operators.", registry=registry
        )
        self.incremental_bytes = Gauge(
            "tidewire_recompute_incremental_bytes",
            "About how many bytes incremental operators and the rows of their tables take.",
            registry=registry,
        )
        self.template_failures = Counter(
            "tidewire_recompute_template_failures_total",
            "Failures of one template, by what was done with it.",
            ("stage",),
            registry=registry,
        )


class RouteMetrics:
    """Of the routes of durable topics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.messages = Counter(
            "tidewire_routes_messages_total", "Messages written to durable topics.", registry=registry
        )
        self.dead = Counter(
            "tidewire_routes_dead_total", "Changes on which a route could not be evaluated.", registry=registry
        )
        self.restarts = Counter(
            "tidewire_routes_restarts_total", "Times that the routes began anew from their topics.", registry=registry
        )
        self.lost = Counter(
            "tidewire_routes_lost_changes_total",
            "Changes that were trimmed from the log before the routes had read them.",
            registry=registry,
        )
