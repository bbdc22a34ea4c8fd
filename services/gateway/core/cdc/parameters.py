"""The parameters that each method takes: one that it does not know is refused, as it may be a filter with a typo."""

from collections.abc import Mapping
from typing import Any

from services.gateway.errors import RpcRefused

_WISHES = frozenset({"pk", "pk_range", "include", "format", "ops", "columns"})
PARAMETERS: dict[str, frozenset[str]] = {
    "system.ping": frozenset(),
    "system.version": frozenset(),
    "system.capabilities": frozenset(),
    "stats.snapshot": frozenset(),
    # The original has a name for it.
    "query.prepare": frozenset({"sql", "name"}),
    "query.drop": frozenset({"query_id"}),
    "cdc.subscribe_table": frozenset({"db", "table"}) | _WISHES,
    "cdc.subscribe_query": frozenset({"query_id", "args"}) | _WISHES,
    "cdc.poll": frozenset({"sub_id", "from_offset", "limit", "wait_ms"}),
    "cdc.ack": frozenset({"sub_id", "offset"}),
    "cdc.pause": frozenset({"sub_id"}),
    "cdc.resume": frozenset({"sub_id"}),
    "cdc.close": frozenset({"sub_id"}),
}
# Of parameters that are objects.
MEMBERS: dict[str, frozenset[str]] = {
    "include": frozenset({"before", "after", "changed_keys"}),
    "pk_range": frozenset({"lower_bound", "upper_bound"}),
}
LONGEST_SHOWN = 64


def refuse_unknown(method: str, params: Mapping[str, Any]) -> None:
    """Name the first that the method does not take, and those that it does."""
    _refuse(params, PARAMETERS[method], method, "")
    for name, known in MEMBERS.items():
        given = params.get(name)
        if isinstance(given, dict):
            _refuse(given, known, name, f"{name}.")


def _refuse(given: Mapping[str, Any], known: frozenset[str], of: str, prefix: str) -> None:
    for name in given:
        if name not in known:
            shown = f"{prefix}{name[:LONGEST_SHOWN]}"
            takes = ", ".join(sorted(known)) or "none"
            raise RpcRefused(
                "invalid_request",
                f"unknown parameter {shown!r}: {of} takes {takes}",
                details={"field": shown},
            )
