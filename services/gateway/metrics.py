"""What the gateway counts: V60 by the names of that document, the rest by ours."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from proto.pgwire.conversation import Traffic
from services.gateway.core.parcel import SELECTIVE, TYPES, Shape, Tally
from services.gateway.core.selective import Verdict
from services.gateway.distribution import Distribution

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
        for name in (*TYPES.values(), SELECTIVE):
            self._updates.labels(name)

    def sent(self, tally: Tally, times: int) -> None:
        """A parcel went to so many."""
        for name in tally.types:
            self._updates.labels(name).inc(times)
        if tally.rows or tally.unmatched:
            self._partial.count(tally, times)

    def began(self, tables: int, *, has_key: bool) -> None:
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

    def count(self, tally: Tally, times: int) -> None:
        for (verdict, shape), rows in tally.rows.items():
            self._column_ratio.observe(shape.changed / shape.columns, rows * times)
            if verdict is Verdict.PARTIAL:
                self._decisions.labels("sent_partial", verdict.value).inc(rows * times)
                self._sent_in_part(shape, rows * times)
            else:
                self._fell_back(verdict.value, rows * times)
        if tally.unmatched:
            self._fell_back("pk_mismatch", tally.unmatched * times)
        if tally.bytes_saved is not None:
            self._bytes_saved.observe(tally.bytes_saved, times)

    def _sent_in_part(self, shape: Shape, rows: int) -> None:
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
