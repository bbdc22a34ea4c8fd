"""A scalar expression of PostgreSQL as one of Spark, node by node; what is not known here is Untranslatable."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from sqlglot import exp

from services.recompute.core.catalog import Collation, PgType
from services.recompute.core.dialect import datetimes, functions, literals, texts
from services.recompute.core.dialect.casts import cast
from services.recompute.core.dialect.operators import bitwise, calculated, compared, negated, one_of
from services.recompute.core.dialect.typed import (
    BOOL,
    INTERVAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Scope,
    Typed,
    Untranslatable,
    merged_flags,
)
from services.recompute.core.dialect.typenames import named_type
from services.recompute.core.rendering import is_utc

_MOST_CHARACTERS = 60_000
_COMPARISONS: dict[type[Any], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[Any], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
_UNRANKED = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.DPipe, exp.JSONExtract, exp.JSONExtractScalar)
_BYTE_COLLATIONS = frozenset(("C", "POSIX", "ucs_basic"))


def translate(node: exp.Expression, scope: Scope) -> Typed:
    """A node's value in Spark SQL, typed as PostgreSQL types it."""
    found = scope.intercepted(node)
    if found is None:
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise Untranslatable(_noun(node))
        found = handler(node, scope)
    if len(found.sql) > _MOST_CHARACTERS:
        raise Untranslatable("an expression that grows too long")
    return found


def condition(node: exp.Expression, scope: Scope) -> Typed:
    """A node that must be a boolean."""
    found = translate(node, scope)
    if found.type.name == "unknown":
        found = cast(found, BOOL)
    if found.type.name != "bool":
        raise Untranslatable(f"{found.type.name} as a condition")
    return found


def _noun(node: exp.Expression) -> str:
    return node.key if not isinstance(node, exp.Anonymous) else f"function {node.name}"


def _only(node: exp.Expression, *names: str) -> None:
    """Refuses what the grammar allows here and this translation does not read."""
    for name, value in node.args.items():
        if name not in names and value not in (None, False, []):
            raise Untranslatable(f"{node.key} with {name}")


def _paren(node: exp.Expression, scope: Scope) -> Typed:
    return translate(node.this, scope)


def _literal(node: exp.Expression, _scope: Scope) -> Typed:
    return literals.string(node.this) if node.args["is_string"] else literals.number(node.this)


def _boolean(node: exp.Expression, _scope: Scope) -> Typed:
    return Typed(sql="TRUE" if node.this else "FALSE", type=BOOL, is_constant=True)


def _parameter(node: exp.Expression, scope: Scope) -> Typed:
    return scope.parameter(int(node.this.name))


def _comparison(node: exp.Expression, scope: Scope) -> Typed:
    operator, right = _COMPARISONS[type(node)], node.args["expression"]
    wanted = _quantified(right)
    if wanted is not None:
        listed = _array_items(wanted)
        if listed is None or (operator, type(right)) not in (("=", exp.Any), ("<>", exp.All), ("<>", exp.Anonymous)):
            return scope.subquery(node)
        found = one_of(translate(node.this, scope), [translate(item, scope) for item in listed], scope)
        return found if operator == "=" else replace(found, sql=f"(NOT {found.sql})")
    if _quantified(node.this) is not None:
        return scope.subquery(node)
    if isinstance(node.this, exp.Tuple) or isinstance(right, exp.Tuple):
        return _rows(operator, node.this, right, scope)
    return compared(operator, translate(node.this, scope), translate(right, scope), scope)


def _quantified(node: exp.Expression) -> Any:
    """What ANY or ALL is said of; sqlglot reads ALL (ARRAY[…]) as a call."""
    if isinstance(node, exp.Any | exp.All):
        return node.this
    if isinstance(node, exp.Anonymous) and _function_name(node) == "all" and len(node.expressions) == 1:
        return node.expressions[0]
    return None


def _array_items(inner: exp.Expression) -> list[exp.Expression] | None:
    """The items of ANY (ARRAY[…]), with or without a cast around it, as PostgreSQL prints IN lists in views."""
    while isinstance(inner, exp.Paren):
        inner = inner.this
    element = None
    if isinstance(inner, exp.Cast) and inner.to.this == exp.DataType.Type.ARRAY and len(inner.to.expressions) == 1:
        element, inner = inner.to.expressions[0], inner.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
    if not isinstance(inner, exp.Array):
        return None
    if element is None:
        return list(inner.expressions)
    return [exp.Cast(this=item, to=element.copy()) for item in inner.expressions]


def _rows(operator: str, left: Any, right: Any, scope: Scope) -> Typed:
    if operator not in ("=", "<>") or not isinstance(left, exp.Tuple) or not isinstance(right, exp.Tuple):
        raise Untranslatable("comparison of rows")
    pairs = zip(left.expressions, right.expressions, strict=True)
    parts = [compared("=", translate(one, scope), translate(other, scope), scope) for one, other in pairs]
    joined = " AND ".join(part.sql for part in parts)
    return Typed(sql=f"({joined})" if operator == "=" else f"(NOT ({joined}))", type=BOOL, **merged_flags(*parts))


def _distinct(node: exp.Expression, scope: Scope) -> Typed:
    found = compared("<=>", translate(node.this, scope), translate(node.args["expression"], scope), scope)
    return found if isinstance(node, exp.NullSafeEQ) else replace(found, sql=f"(NOT {found.sql})")


def _calculation(node: exp.Expression, scope: Scope) -> Typed:
    left, right = translate(node.this, scope), translate(node.args["expression"], scope)
    return calculated(_ARITHMETIC[type(node)], left, right, scope)


def _negation(node: exp.Expression, scope: Scope) -> Typed:
    return negated(translate(node.this, scope))


def _logic(node: exp.Expression, scope: Scope) -> Typed:
    left, right = condition(node.this, scope), condition(node.args["expression"], scope)
    word = "AND" if isinstance(node, exp.And) else "OR"
    return Typed(sql=f"({left.sql} {word} {right.sql})", type=BOOL, **merged_flags(left, right))


def _not(node: exp.Expression, scope: Scope) -> Typed:
    found = condition(node.this, scope)
    return Typed(sql=f"(NOT {found.sql})", type=BOOL, **merged_flags(found))


def _is(node: exp.Expression, scope: Scope) -> Typed:
    _only(node, "this", "expression", "negate")
    what, negation = node.args["expression"], "NOT " if node.args.get("negate") else ""
    if isinstance(what, exp.Null):
        found = translate(node.this, scope)
        if found.type.kind == "c" or found.span is not None:
            raise Untranslatable(f"IS NULL of {found.type.name}")
        return Typed(sql=f"({found.sql} IS {negation}NULL)", type=BOOL, **merged_flags(found))
    if isinstance(what, exp.Boolean):
        found = condition(node.this, scope)
        word = "TRUE" if what.this else "FALSE"
        return Typed(sql=f"({found.sql} IS {negation}{word})", type=BOOL, **merged_flags(found))
    raise Untranslatable("IS with something else than NULL, TRUE and FALSE")


def _in(node: exp.Expression, scope: Scope) -> Typed:
    if node.args.get("query") is not None:
        return scope.subquery(node)
    _only(node, "this", "expressions")
    if isinstance(node.this, exp.Tuple):
        raise Untranslatable("IN of rows")
    return one_of(translate(node.this, scope), [translate(item, scope) for item in node.expressions], scope)


def _between(node: exp.Expression, scope: Scope) -> Typed:
    _only(node, "this", "low", "high")
    found = translate(node.this, scope)
    low = compared(">=", found, translate(node.args["low"], scope), scope)
    high = compared("<=", found, translate(node.args["high"], scope), scope)
    return Typed(sql=f"({low.sql} AND {high.sql})", type=BOOL, **merged_flags(low, high))


def _case(node: exp.Expression, scope: Scope) -> Typed:
    subject = translate(node.this, scope) if node.this is not None else None
    conditions, values = [], []
    for arm in node.args["ifs"]:
        if subject is None:
            conditions.append(condition(arm.this, scope))
        else:
            conditions.append(compared("=", subject, translate(arm.this, scope), scope))
        values.append(translate(arm.args["true"], scope))
    otherwise = node.args.get("default")
    values.append(translate(otherwise, scope) if otherwise is not None else literals.null())
    return functions.chosen(conditions, values, scope)


def _cast(node: exp.Expression, scope: Scope) -> Typed:
    _only(node, "this", "to")
    to = node.args["to"]
    if to.this == exp.DataType.Type.USERDEFINED and isinstance(node.this, exp.Literal) and node.this.args["is_string"]:
        # It can only stand beside a value of that same type: PostgreSQL has accepted the query.
        name = to.args["kind"].sql("postgres")
        return replace(literals.string(node.this.this), type=PgType(0, name, kind="?"))
    wanted = named_type(to)
    given = translate(node.this, scope)
    # PostgreSQL prints the constants of a view with their type, 'month'::text: they stay known.
    return replace(cast(given, wanted, scope.settings), text=given.text if wanted == TEXT else None)


def _interval(node: exp.Expression, _scope: Scope) -> Typed:
    text, unit = node.this, node.args.get("unit")
    if not isinstance(text, exp.Literal) or not (unit is None or isinstance(unit, exp.Var)):
        raise Untranslatable("this form of interval")
    if unit is not None and not text.this.lstrip("+-").isdigit():
        raise Untranslatable("this form of interval")
    said = text.this if unit is None else f"{text.this} {unit.name}"
    return Typed(sql="", type=INTERVAL, span=literals.span(said), is_constant=True)


def _like(node: exp.Expression, scope: Scope, escape: str = "\\") -> Typed:
    _only(node, "this", "expression", "negate")
    if isinstance(node.args["expression"], exp.Any | exp.All):
        raise Untranslatable("LIKE ANY")
    found = texts.like(
        translate(node.this, scope),
        translate(node.args["expression"], scope),
        scope,
        folds=isinstance(node, exp.ILike),
        escape=escape,
    )
    return replace(found, sql=f"(NOT {found.sql})") if node.args.get("negate") else found


def _escape(node: exp.Expression, scope: Scope) -> Typed:
    sign = node.args["expression"]
    if not isinstance(sign, exp.Literal) or not isinstance(node.this, exp.Like | exp.ILike):
        raise Untranslatable("ESCAPE")
    return _like(node.this, scope, sign.this)


def _call(node: exp.Expression, scope: Scope) -> Typed:
    return functions.call(_function_name(node), [translate(one, scope) for one in node.expressions], scope)


def _function_name(node: exp.Expression) -> str:
    name = node.this
    if isinstance(name, exp.Identifier):
        return str(name.this) if name.args.get("quoted") else str(name.this).lower()
    return str(name).lower()


def _dotted(node: exp.Expression, scope: Scope) -> Typed:
    schema, call = node.this, node.args["expression"]
    if isinstance(schema, exp.Identifier) and schema.name == "pg_catalog" and isinstance(call, exp.Anonymous):
        return translate(call, scope)
    raise Untranslatable("a dotted name")


def _substring(node: exp.Expression, scope: Scope) -> Typed:
    _only(node, "this", "start", "length")
    start, count = node.args.get("start"), node.args.get("length")
    first = translate(start, scope) if start is not None else literals.number("1")
    if start is not None and first.type.name not in ("int2", "int4"):
        raise Untranslatable("substring by a pattern")
    return texts.substring(translate(node.this, scope), first, translate(count, scope) if count is not None else None)


def _trim(node: exp.Expression, scope: Scope) -> Typed:
    _only(node, "this", "expression", "position")
    signs = node.args.get("expression")
    where = str(node.args.get("position") or "BOTH").upper()
    return texts.trimmed(translate(node.this, scope), translate(signs, scope) if signs is not None else None, where)


def _position(node: exp.Expression, scope: Scope) -> Typed:
    _only(node, "this", "substr")
    return texts.position(translate(node.this, scope), translate(node.args["substr"], scope))


def _extract(node: exp.Expression, scope: Scope) -> Typed:
    return datetimes.field(node.this.name, translate(node.args["expression"], scope), scope.settings)


def _at_time_zone(node: exp.Expression, scope: Scope) -> Typed:
    found, zone = translate(node.this, scope), translate(node.args["zone"], scope).text
    if zone is None or not is_utc(zone):
        raise Untranslatable("AT TIME ZONE other than UTC")
    if found.type.name == "date":
        found = cast(found, TIMESTAMPTZ, scope.settings)
    if found.type.name not in ("timestamp", "timestamptz"):
        raise Untranslatable(f"{found.type.name} AT TIME ZONE")
    return replace(found, type=TIMESTAMPTZ if found.type.name == "timestamp" else TIMESTAMP)


def _bits(node: exp.Expression, scope: Scope) -> Typed:
    """`&` and `|`, which PostgreSQL takes from left to right and sqlglot does not."""
    if any(isinstance(side, _UNRANKED) for side in (node.this, node.args["expression"])):
        raise Untranslatable("several operators of one rank")
    left, right = translate(node.this, scope), translate(node.args["expression"], scope)
    return bitwise("&" if isinstance(node, exp.BitwiseAnd) else "|", left, right, scope)


def _collate(node: exp.Expression, scope: Scope) -> Typed:
    found = texts.text_of(translate(node.this, scope))
    if node.args["expression"].name not in _BYTE_COLLATIONS:
        raise Untranslatable(f"collation {node.args['expression'].name}")
    return replace(found, type=replace(found.type, collation=Collation.BYTES))


_HANDLERS: dict[type[Any], Callable[[Any, Scope], Typed]] = {
    exp.Paren: _paren,
    exp.Literal: _literal,
    exp.Null: lambda _node, _scope: literals.null(),
    exp.Boolean: _boolean,
    exp.Parameter: _parameter,
    exp.Column: lambda node, scope: scope.column(node),
    exp.Subquery: lambda node, scope: scope.subquery(node),
    exp.Exists: lambda node, scope: scope.subquery(node),
    **dict.fromkeys(_COMPARISONS, _comparison),
    **dict.fromkeys(_ARITHMETIC, _calculation),
    exp.NullSafeEQ: _distinct,
    exp.NullSafeNEQ: _distinct,
    exp.Neg: _negation,
    exp.And: _logic,
    exp.Or: _logic,
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Case: _case,
    exp.Cast: _cast,
    exp.Interval: _interval,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _escape,
    exp.DPipe: lambda node, scope: texts.joined(translate(node.this, scope), translate(node.args["expression"], scope)),
    exp.Anonymous: _call,
    exp.Dot: _dotted,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.StrPosition: _position,
    exp.Extract: _extract,
    exp.AtTimeZone: _at_time_zone,
    exp.Collate: _collate,
    exp.BitwiseAnd: _bits,
    exp.BitwiseOr: _bits,
    exp.CurrentDate: lambda _node, scope: functions.today(scope),
    exp.CurrentTimestamp: lambda _node, scope: scope.now(),
    exp.Localtimestamp: lambda _node, scope: functions.local_now(scope),
}
