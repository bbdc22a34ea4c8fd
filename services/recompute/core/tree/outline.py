"""A tree in lines that people can read: a node each, with its fields, and those inside of it further to the right."""

from collections.abc import Iterator

from msgspec import Struct

from services.recompute.core.tree import nodes as n
from services.recompute.core.tree import proven
from services.recompute.core.tree.constants import Undecodable, value_of

_DULL = (None, "", 0, -1, False, ())
_NAMED = {
    "opno": {oid: name for name, oids in proven.OPERATORS.items() for oid in oids},
    "funcid": {oid: name for name, oids in proven.FUNCTIONS.items() for oid in oids},
    "aggfnoid": {oid: name for name, oids in proven.AGGREGATES.items() for oid in oids},
    "winfnoid": {
        oid: name
        for known in (proven.WINDOW_FUNCTIONS, proven.AGGREGATES)
        for name, oids in known.items()
        for oid in oids
    },
}


def outline(node: n.Expr, depth: int = 0) -> Iterator[str]:
    """What rights are asked for is left out: it says nothing of the meaning."""
    if isinstance(node, n.RTEPermissionInfo):
        return
    own = [_field(name, getattr(node, name), node) for name in node.__struct_fields__]
    yield "  " * depth + " ".join([type(node).__name__, *filter(None, own)])
    for name in node.__struct_fields__:
        for child in _inside(getattr(node, name)):
            yield from outline(child, depth + 1)


def _field(name: str, value: object, node: n.Expr) -> str:
    if name == "constvalue":
        return f"value={_constant(node)}" if isinstance(node, n.Const) else ""
    if value in _DULL or isinstance(value, Struct) or (isinstance(value, tuple) and list(_inside(value))):
        return ""
    named = _NAMED.get(name, {}).get(value) if isinstance(value, int) else None
    return f"{name}={value}" + (f"({named})" if named else "")


def _constant(node: n.Const) -> str:
    try:
        return repr(value_of(node))
    except Undecodable:
        return "…"


def _inside(value: object) -> Iterator[n.Expr]:
    if isinstance(value, Struct):
        yield value  # type: ignore[misc]
    elif isinstance(value, tuple):
        for item in value:
            yield from _inside(item)
