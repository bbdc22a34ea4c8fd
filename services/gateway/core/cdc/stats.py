"""`stats.snapshot.cdc` (S40, S41)."""

from collections.abc import Iterable

from services.gateway.core.cdc.window import Cursor, State, Window, backpressure


def cdc_stats(window: Window, subscriptions: Iterable[tuple[bool, Cursor]]) -> dict[str, int]:
    """Of all subscriptions, each with whether it is one of a query."""
    found = {
        "active_subscriptions": 0,
        "table_subscriptions": 0,
        "query_subscriptions": 0,
        "total_lag": 0,
        "max_lag": 0,
        "resnapshot_subscriptions": 0,
        "paused_subscriptions": 0,
        "pressured_subscriptions": 0,
        "throttle_recommended_subscriptions": 0,
        "earliest_offset": window.earliest,
        "latest_offset": window.latest,
        "retained_events": max(0, window.latest - window.earliest + 1),
        "retention_limit": window.retention,
        "dropped_events_total": max(0, window.earliest - 1),
        "warn_lag": window.warn_lag,
        "throttle_lag": window.throttle_lag,
        "min_remaining_until_resnapshot": window.retention,
    }
    for is_query, cursor in subscriptions:
        pressure = backpressure(window, cursor)
        found["active_subscriptions"] += 1
        found["query_subscriptions" if is_query else "table_subscriptions"] += 1
        found["total_lag"] += pressure.lag
        found["max_lag"] = max(found["max_lag"], pressure.lag)
        found["resnapshot_subscriptions"] += pressure.state is State.RESNAPSHOT
        found["paused_subscriptions"] += cursor.paused
        found["pressured_subscriptions"] += pressure.state in (State.PRESSURE, State.THROTTLE)
        found["throttle_recommended_subscriptions"] += pressure.state is State.THROTTLE
        found["min_remaining_until_resnapshot"] = min(found["min_remaining_until_resnapshot"], pressure.remaining)
    return found
