"""A rewritten query tree out of PostgreSQL's text of it."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import NODEFAULT, Struct

from services.recompute.core.tree import nodes
from services.recompute.core.tree.nodes import Expr, NotUnderstood, Query
from services.recompute.core.tree.text import NULL, BadText, Datum, Listed, read_as, word

# Nodes inside each other, lists not counted; every walk over a tree may recurse that deep.
MOST_DEPTH = 200
# The tree of a long query of an application has some ten thousand.
MOST_CHARACTERS = 4_000_000

_NUMBER = re.compile(r"-?\d{1,19}")
_KINDS: Final[tuple[type[Struct], ...]] = (
    *(nodes.Var, nodes.Const, nodes.Param, nodes.OpExpr, nodes.DistinctExpr, nodes.NullIfExpr),
    *(nodes.ScalarArrayOpExpr, nodes.FuncExpr, nodes.NamedArgExpr, nodes.RelabelType, nodes.CoerceViaIO),
    *(nodes.ArrayCoerceExpr, nodes.CoerceToDomain, nodes.CollateExpr, nodes.CaseWhen, nodes.CaseExpr),
    *(nodes.CaseTestExpr, nodes.CoalesceExpr, nodes.MinMaxExpr, nodes.BoolExpr, nodes.NullTest, nodes.BooleanTest),
    *(nodes.ArrayExpr, nodes.RowExpr, nodes.RowCompareExpr, nodes.SQLValueFunction, nodes.Aggref, nodes.WindowFunc),
    *(nodes.SubLink, nodes.TargetEntry, nodes.SortGroupClause, nodes.GroupingSet, nodes.WindowClause),
    *(
        nodes.RangeTblRef,
        nodes.JoinExpr,
        nodes.FromExpr,
        nodes.RangeTblFunction,
        nodes.SetOperationStmt,
        nodes.CommonTableExpr,
    ),
    *(nodes.RTEPermissionInfo, nodes.RangeTblEntry, nodes.Query),
)
# What the text calls differently from the C struct.
_LABELS: Final[dict[str, type[Struct]]] = {
    "COERCETODOMAIN": nodes.CoerceToDomain,
    "COLLATE": nodes.CollateExpr,
    "ROW": nodes.RowExpr,
}

Convert: TypeAlias = Callable[[Any], object]


class _Unfit(ValueError):
    """A field's value is not of the form that its type has."""


def read_tree(text: str) -> Query | NotUnderstood:
    """The one query that a SELECT is rewritten to; NotUnderstood where the text is anything else."""
    if len(text) > MOST_CHARACTERS:
        return NotUnderstood(f"more than {MOST_CHARACTERS} characters")
    try:
        found = read_as(text, _made)
    except BadText as error:
        return NotUnderstood(f"text: {error}")
    except _Deep:
        return NotUnderstood(f"nesting deeper than {MOST_DEPTH}")
    if isinstance(found, Listed) and len(found.items) == 1:
        found = found.items[0]
    if isinstance(found, Query | NotUnderstood):
        return found
    return NotUnderstood("a text that is not one query")


class _Deep(ValueError):
    pass


def _made(label: str, fields: tuple[tuple[str, Any], ...], depth: int) -> Expr:
    if depth > 2 * MOST_DEPTH:
        raise _Deep
    form = _FORMS.get(label)
    if form is None:
        return NotUnderstood(label.lower())
    given = dict(fields)
    values: dict[str, object] = {}
    try:
        for name, (convert, is_needed) in form.fields.items():
            if name in given:
                values[name] = convert(given[name])
            elif is_needed:
                return NotUnderstood(f"{label.lower()} without {name}")
    except _Unfit:
        return NotUnderstood(f"{label.lower()} with another {name}")
    return form.kind(**values)  # type: ignore[no-any-return]


def _integer(value: Any) -> int:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        raise _Unfit
    return int(value)


def _boolean(value: Any) -> bool:
    if value not in ("true", "false"):
        raise _Unfit
    return bool(value == "true")


def _word(value: Any) -> str:
    found = _optional_word(value)
    if found is None:
        raise _Unfit
    return found


def _optional_word(value: Any) -> str | None:
    if not isinstance(value, str):
        raise _Unfit
    return word(value)


def _node(value: Any) -> Expr:
    if not isinstance(value, Struct) or isinstance(value, Listed | Datum):
        raise _Unfit
    return value  # type: ignore[return-value]


def _optional_node(value: Any) -> Expr | None:
    return None if value == NULL else _node(value)


def _node_list(value: Any) -> tuple[Expr, ...]:
    """Elements that are no nodes (names of columns, NULL for a dropped one) stand as NotUnderstood."""
    if value == NULL:
        return ()
    if not isinstance(value, Listed) or value.kind:
        raise _Unfit
    return tuple(NotUnderstood(f"element {item}") if isinstance(item, str) else _element(item) for item in value.items)


def _element(item: Any) -> Expr:
    return NotUnderstood("a list in a list") if isinstance(item, Listed) else _node(item)


def _node_lists(value: Any) -> tuple[tuple[Expr, ...], ...]:
    if value == NULL:
        return ()
    if not isinstance(value, Listed) or value.kind:
        raise _Unfit
    return tuple(_node_list(item) for item in value.items)


def _integers(value: Any) -> tuple[int, ...]:
    if value == NULL:
        return ()
    if not isinstance(value, Listed) or value.kind not in ("i", "o", "b"):
        raise _Unfit
    return tuple(int(item) for item in value.items)


def _datum(value: Any) -> bytes | None:
    """A value passed by value fills a whole Datum of eight bytes, of which `length` count."""
    if value == NULL:
        return None
    if not isinstance(value, Datum) or not all(-128 <= int(item) < 256 for item in value.items):
        raise _Unfit
    held = bytes(int(item) % 256 for item in value.items)
    if int(value.length) > len(held):
        raise _Unfit
    return held[: int(value.length)]


class _Form(Struct, frozen=True):
    kind: type[Any]
    # How each field is converted, and whether a node without it is not understood.
    fields: Mapping[str, tuple[Convert, bool]]


_CONVERSIONS: Final[dict[str, Convert]] = {
    "int": _integer,
    "bool": _boolean,
    "str": _word,
    "str | None": _optional_word,
    "bytes | None": _datum,
    "Expr": _node,
    "Expr | None": _optional_node,
    "tuple[Expr, ...]": _node_list,
    "tuple[tuple[Expr, ...], ...]": _node_lists,
    "tuple[int, ...]": _integers,
}


def _form(kind: type[Struct]) -> _Form:
    fields: dict[str, tuple[Convert, bool]] = {}
    needed = {field.name: field.default is NODEFAULT for field in msgspec.structs.fields(kind)}
    for base in reversed(kind.__mro__):
        for name, annotation in getattr(base, "__annotations__", {}).items():
            if name in needed:
                fields[name] = (_conversion(annotation), needed[name])
    return _Form(kind, MappingProxyType(fields))


def _conversion(annotation: Any) -> Convert:
    written = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if str(annotation).startswith(("tuple[int", "str |", "bytes |")):
        written = str(annotation)
    return _CONVERSIONS[written]


_FORMS: Final[dict[str, _Form]] = {
    **{kind.__name__.upper(): _form(kind) for kind in _KINDS},
    **{label: _form(kind) for label, kind in _LABELS.items()},
}
