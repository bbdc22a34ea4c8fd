"""What the administrators' page shows: made of what services said, of cursors, and of this gateway's own state."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from proto.tidewire.v1.status_pb2 import LiveQueryStatus, Status
from services.gateway.core.cdc.subscription import Subscription as CdcSubscription
from services.gateway.core.cdc.window import Backpressure, Cursor, State, Window, backpressure
from services.gateway.core.delivery.subscription import Subscription as LiveSubscription

# A process that has not spoken for so many of its turns is silent.
SILENT_TURNS = 4
# In which order states are looked at: the worst first.
STATES = ("resnapshot_required", "throttle", "pressure", "paused", "waiting", "healthy")
RANK = {state: place for place, state in enumerate(STATES)}
MOST_PAGE = 500
Unit = Literal["bytes", "records"]


class Hop(Struct, frozen=True, kw_only=True):
    """One stretch of a commit's road: what waits before its end; None where that is not known now."""

    of: str
    to: str
    by: str
    lag: float | None
    unit: Unit


class SubscriptionRow(Struct, frozen=True, kw_only=True):
    """A subscription of any door."""

    id: str
    door: Literal["cdc", "binary"]
    of: str
    kind: Literal["table", "query"]
    owner: str
    role: str | None
    state: str
    lag: int
    unit: Literal["events", "steps"]
    # Of the window: None for doors without one.
    remaining: int | None = None
    retention: int | None = None
    acked: int | None = None
    paused: bool = False


class Page(Struct, frozen=True, kw_only=True):
    rows: list[SubscriptionRow]
    found: int
    total: int
    by_state: dict[str, int]


def service_shown(status: Status, now_us: int) -> dict[str, Any]:
    """A process; one that should have spoken since is silent, whatever it said last."""
    silent_s = max(0.0, (now_us - status.written_us) / 1e6)
    is_silent = silent_s * 1000 > SILENT_TURNS * max(status.every_ms, 500)
    health = "silent" if is_silent else "ready" if status.ready else "not ready"
    return {
        "service": status.service,
        "instance": status.instance,
        "host": status.host,
        "pid": status.pid,
        "version": status.version,
        "uptime_s": max(0, (now_us - status.started_us) // 1_000_000),
        "health": health,
        "reason": f"said nothing for {silent_s:.0f} s" if is_silent else status.reason,
        "memory_bytes": status.figures.get("process_resident_memory_bytes"),
    }


def hops(
    statuses: Sequence[Status],
    *,
    durable_at: Callable[[int], float | None],
    log_lsn: int,
    deliveries_behind: int,
    now_us: int,
) -> list[Hop]:
    """The road of a commit; a reader is compared with where the log stood when the reader spoke."""
    by_service: dict[str, list[Status]] = {}
    for status in statuses:
        by_service.setdefault(status.service, []).append(status)

    def figures(service: str, name: str) -> list[tuple[Status, float]]:
        return [(one, one.figures[name]) for one in by_service.get(service, ()) if name in one.figures]

    captured = [value for _, value in figures("capture", "tidewire_capture_lag_bytes")]
    recomputed = [
        max(0.0, durable - lsn)
        for one, lsn in figures("recompute", "tidewire_recompute_reached_lsn")
        if (durable := durable_at(one.written_us)) is not None
    ]
    behind = [value for _, value in figures("fanout", "tidewire_fanout_behind_records")]
    durable_now = durable_at(now_us)
    here = None if durable_now is None or not log_lsn else max(0.0, durable_now - log_lsn)
    return [
        Hop(of="PostgreSQL", to="capture", by="WAL", lag=max(captured, default=None), unit="bytes"),
        Hop(of="capture", to="recompute", by="changes", lag=max(recomputed, default=None), unit="bytes"),
        Hop(of="recompute", to="fanout", by="deltas", lag=sum(behind) if behind else None, unit="records"),
        Hop(of="fanout", to="gateway", by="deliveries", lag=float(deliveries_behind), unit="records"),
        Hop(of="capture", to="gateway", by="changes", lag=here, unit="bytes"),
    ]


def query_shown(query: LiveQueryStatus, worker: Status, subscribers: Mapping[bytes, int]) -> dict[str, Any]:
    return {
        "query_id": query.query_id.hex(),
        "template_id": query.template_id.hex(),
        "sql": query.sql,
        "role": query.role,
        "strategy": query.strategy or None,
        "why_not": dict(query.why_not),
        "tables": list(query.tables),
        "rows": query.rows if query.HasField("rows") else None,
        "error": query.error or None,
        "by": query.by,
        "latency_ms": round(query.latency_ms, 1) if query.HasField("latency_ms") else None,
        "spark_sql": query.spark_sql or None,
        "subscribers_here": subscribers.get(query.query_id, 0),
        "worker": worker.instance,
    }


def cdc_row(subscription: CdcSubscription, cursor: Cursor, window: Window) -> SubscriptionRow:
    pressure: Backpressure = backpressure(window, cursor)
    if subscription.table is not None:
        of, kind = ".".join(subscription.table[1:]), "table"
    else:
        of, kind = subscription.query[0] if subscription.query else "", "query"
    return SubscriptionRow(
        id=subscription.sub_id,
        door="cdc",
        of=of,
        kind=kind,  # type: ignore[arg-type]
        owner=subscription.owner.name,
        role=subscription.owner.database_role,
        state=pressure.state.value,
        lag=pressure.lag,
        unit="events",
        remaining=pressure.remaining,
        retention=window.retention,
        acked=cursor.acked,
        paused=cursor.paused,
    )


def binary_row(subscription: LiveSubscription, behind: int) -> SubscriptionRow:
    if not subscription.acknowledged:
        state = "waiting"
    elif subscription.paused:
        state = State.PAUSED.value
    else:
        state = State.THROTTLE.value if subscription.connection.outlet.congested else State.HEALTHY.value
    return SubscriptionRow(
        id=str(subscription.id),
        door="binary",
        of="" if subscription.query_id is None else subscription.query_id.hex(),
        kind="query",
        owner=subscription.owner.login,
        role=subscription.owner.role,
        state=state,
        lag=behind,
        unit="steps",
        paused=subscription.paused,
    )


def page_of(
    rows: Iterable[SubscriptionRow], *, search: str = "", state: str = "", door: str = "", offset: int = 0, limit: int
) -> Page:
    """The rows asked for, those in the worst state and furthest behind first; states are counted before `state`."""
    every, words = list(rows), search.lower()
    named = [
        one
        for one in every
        if (not door or one.door == door)
        and (not words or any(words in text.lower() for text in (one.id, one.of, one.owner, one.role or "")))
    ]
    by_state = dict.fromkeys(STATES, 0)
    for one in named:
        by_state[one.state] += 1
    found = [one for one in named if not state or one.state == state]
    found.sort(key=lambda one: (RANK[one.state], -one.lag, one.id))
    return Page(
        rows=found[offset : offset + min(limit, MOST_PAGE)], found=len(found), total=len(every), by_state=by_state
    )
