"""Every node of a tree, and the queries in it."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from services.recompute.core.tree.nodes import Expr, Query


def children(node: Expr) -> Iterator[Expr]:
    """The nodes that a node holds, in the order of its fields."""
    for name in node.__struct_fields__:
        yield from _nodes(getattr(node, name))


def _nodes(value: Any) -> Iterator[Expr]:
    if isinstance(value, Struct):
        yield value  # type: ignore[misc]
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)


def walk(root: Expr) -> Iterator[Expr]:
    """The node and all below it, queries inside included."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += children(node)


def walk_within(root: Expr) -> Iterator[Expr]:
    """As walk(), not going into queries below the root."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += [child for child in children(node) if not isinstance(child, Query)]


def queries(root: Expr) -> Iterator[Query]:
    """All queries, the outermost first."""
    return (node for node in walk(root) if isinstance(node, Query))
