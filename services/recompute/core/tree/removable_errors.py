"""Errors that Spark may leave out, by the place where what raises them stands."""

from collections.abc import Iterator
from itertools import chain

from services.recompute.core.tree import nodes as n
from services.recompute.core.tree import proven
from services.recompute.core.tree.constants import Undecodable, value_of
from services.recompute.core.tree.typing import type_of
from services.recompute.core.tree.walking import children, queries, walk, walk_within

_DIVISIONS = frozenset((*proven.OPERATORS["/"], *proven.OPERATORS["%"]))
_MODULO = frozenset(proven.FUNCTIONS["mod"])
# + - * of numbers and times, and the sign: too large a result is an error, but for numeric.
_NUMERIC = frozenset((1751, 1758, 1759, 1760))
_OVERFLOWING = frozenset(chain.from_iterable(proven.OPERATORS[name] for name in "+-*")) - _NUMERIC
# Casts to a narrower type, and functions with arguments that they refuse: rare values make them fail.
_NARROW = frozenset((480, 714, 314, 1783, 1744, 1779, 317, 319, 237, 238, 483, 653, 1703, 1396, 1397, 1398))
# A count of characters or parts that is 0 or negative is an error.
_COUNTED = frozenset((877, 936, 2088))
_COUNT = 2147
_MINUS_ONE = -1
_TEXT, _VARCHAR = 25, 1043


def removable_errors(tree: n.Query) -> Iterator[str]:
    """Spark leaves out what it finds unneeded; PostgreSQL evaluates it, and an error in it is the answer."""
    printed = {id(query) for query in _printed(tree)}
    for query in queries(tree):
        yield from _under_null_tests(query)
        is_cut = query.limitCount is not None or query.limitOffset is not None
        if (is_cut and any(_may_raise(node) for node in _computed_late(query))) or (
            id(query) not in printed and any(_is_fragile(node) for node in _shown(query))
        ):
            yield "an error that may come in a part which Spark leaves out"
    for node in walk(tree):
        if isinstance(node, n.CommonTableExpr) and any(_may_raise(inner) for inner in _shown(node.ctequery)):
            yield "an error that may come in a WITH query"


def _printed(query: n.Query) -> Iterator[n.Query]:
    """The queries whose every column is a column of the result: the outermost one, and the sides of its UNION."""
    yield query
    if query.setOperations is not None and query.limitCount is None and query.limitOffset is None:
        for entry in query.rtable:
            if isinstance(entry, n.RangeTblEntry) and isinstance(entry.subquery, n.Query):
                yield from _printed(entry.subquery)


def _shown(query: n.Expr) -> Iterator[n.Expr]:
    """The nodes of a select list."""
    if isinstance(query, n.Query):
        for entry in query.targetList:
            yield from walk_within(entry)


def _computed_late(query: n.Query) -> Iterator[n.Expr]:
    """What Spark computes after a LIMIT, for the rows that are left: neither what is sorted by nor in an aggregate."""
    sorted_by = {clause.tleSortGroupRef for clause in query.sortClause if isinstance(clause, n.SortGroupClause)}
    pending: list[n.Expr] = [
        entry
        for entry in query.targetList
        if isinstance(entry, n.TargetEntry) and not (entry.ressortgroupref and entry.ressortgroupref in sorted_by)
    ]
    while pending:
        node = pending.pop()
        if not isinstance(node, n.Aggref | n.WindowFunc | n.Query):
            yield node
            pending += children(node)


def _under_null_tests(query: n.Query) -> Iterator[str]:
    """Whether a value is NULL can often be said without computing it."""
    for node in walk_within(query):
        match node:
            case n.NullTest() | n.BooleanTest() | n.DistinctExpr():
                found = any(_may_raise(inner) for inner in _within(node))
            case n.CoalesceExpr():
                found = any(_is_fragile(inner) for inner in _within(node))
            case n.Aggref(aggfnoid=oid, args=args):
                found = oid == _COUNT and any(_may_raise(inner) for part in args for inner in walk_within(part))
            case n.WindowFunc(winfnoid=oid, args=args):
                found = oid == _COUNT and any(_may_raise(inner) for part in args for inner in walk_within(part))
            case _:
                found = False
        if found:
            yield "an error that may come where only NULL or not is asked"


def _within(node: n.Expr) -> Iterator[n.Expr]:
    for child in children(node):
        yield from walk_within(child)


def _may_raise(node: n.Expr) -> bool:
    """Whether some value makes it fail, if only one that is too large."""
    match node:
        case n.OpExpr(opno=oid):
            return oid in _OVERFLOWING or _is_fragile(node)
        case n.FuncExpr(funcid=oid):
            return oid in _NARROW or _is_fragile(node)
    return _is_fragile(node)


def _is_fragile(node: n.Expr) -> bool:
    """Whether ordinary values make it fail."""
    match node:
        case n.OpExpr(opno=oid, args=args) if oid in _DIVISIONS and len(args) == 2:
            return not _is_divisor(args[1])
        case n.FuncExpr(funcid=oid, args=args) if oid in _MODULO:
            return not _is_divisor(args[1])
        case n.FuncExpr(funcid=oid, args=args) if oid in _COUNTED:
            count = _constant(args[-1])
            return not (isinstance(count, int) and count > 0)
        case n.CoerceViaIO():
            return type_of(node.arg) in (_TEXT, _VARCHAR)
    return False


def _is_divisor(node: n.Expr) -> bool:
    """Certainly not 0, nor -1, by which the least integer cannot be divided; NULL divides into NULL."""
    while isinstance(node, n.FuncExpr) and node.funcformat == 2 and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, n.NullIfExpr):
        return _constant(node.args[1]) == 0
    value = _constant(node)
    return value is not None and value not in (0, _MINUS_ONE)


def _constant(node: n.Expr) -> object:
    while isinstance(node, n.FuncExpr) and node.funcformat == 2 and len(node.args) == 1:
        node = node.args[0]
    if not isinstance(node, n.Const):
        return None
    try:
        return value_of(node)
    except Undecodable:
        return None
