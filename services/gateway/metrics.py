"""What the gateway counts: V60 by the names of that document, the rest by ours."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proto.pgwire.conversation import Traffic
from services.chassis.histogram import Distribution
from services.gateway.core.encoders.binary import SELECTIVE, TYPE_LABELS, BatchStatistics, RowShape
from services.gateway.core.encoders.partial_rows import RowDecision

RATIOS = tuple(tenth / 10 for tenth in range(1, 11))
COLUMNS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128)
BYTES = (0, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576)
# Reasons that cannot occur here are shown as zero: rows are paired one by one, whatever else came with them, and a net
# has no row without a change.
FALLBACKS = ("threshold_exceeded", "below_minimum", "disabled", "pk_mismatch", "row_count_mismatch", "no_changes")


class Metrics:
    """Counted once for a step and multiplied: nothing here is done for each subscriber."""

    def __init__(self, registry: CollectorRegistry, traffic: Traffic) -> None:
        self.connections = Gauge(
            "tidewire_gateway_connections", "Clients that have sent a live message.", registry=registry
        )
        self.refused = Counter("tidewire_gateway_refused_total", "Subscribes refused.", registry=registry)
        self.resyncs = Counter("tidewire_gateway_resyncs_total", "Whole results asked for.", registry=registry)
        self.ring_bytes = Gauge(
            "tidewire_gateway_ring_bytes", "Kept for those who are paused or do not read.", registry=registry
        )
        self.subscriptions = Gauge("vibesql_subscriptions_active", "Subscriptions that live.", registry=registry)
        self.eligible = Gauge(
            "vibesql_subscriptions_selective_eligible", "Subscriptions that may get partial rows.", registry=registry
        )
        self._updates = Counter("vibesql_subscription_updates_total", "Messages sent.", ("type",), registry=registry)
        self._keys = Counter(
            "vibesql_subscription_pk_detection_total",
            "Whether a subscription's result has a certain key.",
            ("result", "reason"),
            registry=registry,
        )
        self._partial = PartialRows(registry)
        registry.register(ServerCounters(traffic))
        for name in (*TYPE_LABELS.values(), SELECTIVE):
            self._updates.labels(name)

    def sent(self, batch: BatchStatistics, times: int) -> None:
        """A batch went to so many subscriptions."""
        for name in batch.types:
            self._updates.labels(name).inc(times)
        if batch.rows or batch.unmatched:
            self._partial.count(batch, times)

    def acknowledged(self, tables: int, *, has_key: bool) -> None:
        """A subscription has its Ack."""
        if has_key:
            self._keys.labels("confident", "").inc()
        else:
            reason = "no_table" if tables == 0 else "join_query" if tables > 1 else "unknown"
            self._keys.labels("not_confident", reason).inc()


class PartialRows:
    """How rows that changed were sent."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._fallbacks = Counter(
            "vibesql_partial_update_fallbacks_total", "Changed rows sent whole.", ("reason",), registry=registry
        )
        self._decisions = Counter(
            "vibesql_subscription_selective_update_decisions_total",
            "How changed rows were sent.",
            ("decision", "reason"),
            registry=registry,
        )
        self._bytes_saved = Distribution(
            "vibesql_partial_update_bytes_saved", "Bytes that a partial message is shorter.", BYTES, registry=registry
        )
        self._columns_sent = Distribution(
            "vibesql_selective_update_columns_sent", "Columns of a partial row.", COLUMNS, registry=registry
        )
        self._changed_ratio = Distribution(
            "vibesql_selective_update_changed_ratio", "Changed of all columns, partial rows.", RATIOS, registry=registry
        )
        self._column_ratio = Distribution(
            "vibesql_subscription_selective_update_column_ratio",
            "Changed of all columns, every row that was decided on.",
            RATIOS,
            registry=registry,
        )
        self._efficiency = Gauge(
            "vibesql_partial_update_efficiency", "1 - columns sent / all columns, partial rows.", registry=registry
        )
        self._columns, self._all_columns = 0, 0
        for reason in FALLBACKS:
            self._fallbacks.labels(reason)

    def count(self, batch: BatchStatistics, times: int) -> None:
        for (decision, shape), rows in batch.rows.items():
            self._column_ratio.observe(shape.changed / shape.columns, rows * times)
            if decision is RowDecision.PARTIAL:
                self._decisions.labels("sent_partial", decision.value).inc(rows * times)
                self._sent_in_part(shape, rows * times)
            else:
                self._fell_back(decision.value, rows * times)
        if batch.unmatched:
            self._fell_back("pk_mismatch", batch.unmatched * times)
        if batch.bytes_saved is not None:
            self._bytes_saved.observe(batch.bytes_saved, times)

    def _sent_in_part(self, shape: RowShape, rows: int) -> None:
        self._columns_sent.observe(shape.sent, rows)
        self._changed_ratio.observe(shape.changed / shape.columns, rows)
        self._columns += shape.sent * rows
        self._all_columns += shape.columns * rows
        self._efficiency.set(1 - self._columns / self._all_columns)

    def _fell_back(self, reason: str, rows: int) -> None:
        self._fallbacks.labels(reason).inc(rows)
        self._decisions.labels("sent_full", reason).inc(rows)


class ServerCounters(Collector):
    """What passes the PG port, read when somebody asks."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic

    def collect(self) -> Iterator[Metric]:
        seen = self._traffic
        for name, words, value in (
            ("connections", "Clients accepted.", seen.connections),
            ("queries", "Queries passed on.", seen.queries),
            ("messages_received", "Messages of clients.", seen.messages_received),
            ("messages_sent", "Messages to clients.", seen.messages_sent),
            ("bytes_received", "Bytes of clients.", seen.bytes_received),
            ("bytes_sent", "Bytes to clients.", seen.bytes_sent),
        ):
            yield CounterMetricFamily(f"vibesql_server_{name}", words, value)


class HttpMetrics:
    """What the HTTP port counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers = Counter(
            "tidewire_gateway_http_answers_total", "Answers of the HTTP port.", ("status",), registry=registry
        )
        self._logins = Counter(
            "tidewire_gateway_http_credentials_total",
            "Credentials that were brought, by what became of them.",
            ("method", "result"),
            registry=registry,
        )

    def answered(self, status: int) -> None:
        """A request was answered."""
        self._answers.labels(str(status)).inc()

    def authenticated(self, method: str, result: str) -> None:
        """Credentials were accepted, refused, delayed, or could not be checked (unavailable)."""
        self._logins.labels(method, result).inc()


class CdcMetrics:
    """What the CDC door counts: `stats.snapshot.cdc` as gauges, and what this gateway holds for it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._streams = Gauge("tidewire_gateway_cdc_streams", "SSE and WebSocket streams.", registry=registry)
        self._tail = Gauge("tidewire_gateway_cdc_tail_events", "Events of the log in memory.", registry=registry)
        self._tail_bytes = Gauge("tidewire_gateway_cdc_tail_bytes", "Their bytes.", registry=registry)
        self._stats = Gauge(
            "tidewire_cdc", "stats.snapshot.cdc, over all gateways, by its names.", ("name",), registry=registry
        )

    def seen(self, streams: int, events: int, held_bytes: int) -> None:
        """What this gateway holds."""
        self._streams.set(streams)
        self._tail.set(events)
        self._tail_bytes.set(held_bytes)

    def counted(self, stats: dict[str, int]) -> None:
        """What all gateways serve."""
        for name, value in stats.items():
            self._stats.labels(name).set(value)
