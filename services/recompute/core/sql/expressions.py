"""An expression of the tree as one of Spark, node by node; what is not known here is Untranslatable."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from msgspec.structs import replace

from services.recompute.core.catalog import PgType
from services.recompute.core.sql import texts
from services.recompute.core.sql.block import Block
from services.recompute.core.sql.calls import call
from services.recompute.core.sql.casts import cast
from services.recompute.core.sql.constants import constant
from services.recompute.core.sql.forms import ordering_key, spark_type_of
from services.recompute.core.sql.held import alike, case_of, first_of
from services.recompute.core.sql.operators import bitwise, calculated, compared, negated, one_of
from services.recompute.core.sql.typed import BOOL, DATE, NAME, STRINGS, TIMESTAMP, Typed, Untranslatable, merged_flags
from services.recompute.core.sql.world import retyped
from services.recompute.core.storage import quoted
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree import proven
from services.recompute.core.tree.typing import type_of

_MOST_CHARACTERS = 60_000
FIRST_USER_OID = 16384
SYMBOLS = {oid: symbol for symbol, oids in proven.OPERATORS.items() for oid in oids}
_COMPARISONS = frozenset(("=", "<>", "<", "<=", ">", ">="))
_LIKES = {"~~": False, "!~~": False, "~~*": True, "!~~*": True}
_LIKE_ESCAPE = 1637
_TEXT, _VARCHAR_ARRAY, _TEXT_ARRAY = 25, 1015, 1009
_OF_SUBLINK = 2
_USERS = (9, 10, 11)
_BOOLEAN_TESTS = ("IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS NULL", "IS NOT NULL")
_PROVEN_FUNCTIONS = frozenset(chain(*proven.FUNCTIONS.values()))


def translate(node: n.Expr, block: Block) -> Typed:
    """A node's value in Spark SQL, of the type that PostgreSQL says it has."""
    found = block.intercepted(node)
    if found is not None:
        return found
    handler = _HANDLERS.get(type(node))
    if handler is None:
        raise Untranslatable(_noun(node))
    with block.below(node):
        typed: Typed = handler(node, block)
    if len(typed.sql) > _MOST_CHARACTERS:
        raise Untranslatable("an expression that grows too long")
    return retyped(typed, block.world.type_of(node))


def condition(node: n.Expr, block: Block) -> Typed:
    found = block.translate(node)
    if found.type.oid != BOOL.oid:
        raise Untranslatable("a condition that is not boolean")
    return found


def _noun(node: n.Expr) -> str:
    return f"{node.name}, which is not understood" if isinstance(node, n.NotUnderstood) else type(node).__name__


def _variable(node: n.Var, block: Block) -> Typed:
    return block.variable(node)


def _parameter(node: n.Param, block: Block) -> Typed:
    if node.paramkind == _OF_SUBLINK:
        if not 0 < node.paramid <= len(block.columns_of_sublink):
            raise Untranslatable("a subquery's column outside its comparison")
        return block.columns_of_sublink[node.paramid - 1]
    if node.paramkind:
        raise Untranslatable("a parameter of another kind")
    return block.parameter(node.paramid)


def arguments(nodes: Sequence[n.Expr], collation: int, block: Block) -> list[Typed]:
    """The arguments of a call; texts in the collation that PostgreSQL resolved for it."""
    return [collated(block.translate(node), collation, block) for node in nodes]


def collated(typed: Typed, collation: int, block: Block) -> Typed:
    if typed.type.name not in STRINGS:
        return typed
    return replace(typed, type=replace(typed.type, collation=block.world.collation(collation)))


def _operation(node: n.OpExpr, block: Block) -> Typed:
    symbol = _symbol(node)
    if symbol in _LIKES:
        return _like(node, symbol, block)
    return operated(symbol, arguments(node.args, node.inputcollid, block), block)


def _symbol(node: n.OpExpr | n.ScalarArrayOpExpr) -> str:
    found = SYMBOLS.get(node.opno)
    if found is None or getattr(node, "opretset", False):
        raise Untranslatable(f"operator {node.opno}")
    return found


def operated(symbol: str, given: list[Typed], block: Block) -> Typed:
    if len(given) == 1:
        if symbol != "-":
            raise Untranslatable(f"{symbol} of one value")
        return negated(given[0])
    left, right = given
    if symbol in _COMPARISONS:
        return compared(symbol, left, right, block)
    if symbol in ("&", "|"):
        return bitwise(symbol, left, right)
    if symbol == "||":
        return texts.joined(left, right)
    return calculated(symbol, left, right, block)


def _like(node: n.OpExpr, symbol: str, block: Block) -> Typed:
    value, pattern = node.args
    escape = "\\"
    if isinstance(pattern, n.FuncExpr) and pattern.funcid == _LIKE_ESCAPE:
        sign = block.translate(pattern.args[1]).text
        if sign is None:
            raise Untranslatable("ESCAPE that is no constant")
        check_escape(folds=_LIKES[symbol])
        pattern, escape = pattern.args[0], sign
    one, other = arguments((value, pattern), node.inputcollid, block)
    if other.text is not None and other.text.count("%") > texts.MOST_WILDCARDS:
        raise Untranslatable(f"a pattern with more than {texts.MOST_WILDCARDS} times %")
    found = texts.like(one, other, block, folds=_LIKES[symbol], escape=escape)
    return replace(found, sql=f"(NOT {found.sql})") if symbol.startswith("!") else found


def check_escape(*, folds: bool) -> None:
    """Spark would fold the escape's letter too."""
    if folds:
        raise Untranslatable("ILIKE with ESCAPE")


def _listed(node: n.ScalarArrayOpExpr, block: Block) -> Typed:
    symbol = _symbol(node)
    elements = _elements(node.args[1])
    if not elements or (symbol, node.useOr) not in (("=", True), ("<>", False)):
        raise Untranslatable("ANY or ALL over an array")
    value, *items = arguments((node.args[0], *elements), node.inputcollid, block)
    found = one_of(value, items, block)
    return found if symbol == "=" else replace(found, sql=f"(NOT {found.sql})")


def _elements(array: n.Expr) -> tuple[n.Expr, ...]:
    if isinstance(array, n.ArrayCoerceExpr) and (type_of(array.arg), array.resulttype) == (_VARCHAR_ARRAY, _TEXT_ARRAY):
        inside = _elements(array.arg)
        return tuple(n.RelabelType(one, _TEXT, -1, array.resultcollid, 2) for one in inside)
    return array.elements if isinstance(array, n.ArrayExpr) and not array.multidims else ()


def _distinct(node: n.DistinctExpr, block: Block) -> Typed:
    if _symbol(node) != "=":
        raise Untranslatable("IS DISTINCT FROM by another operator")
    left, right = arguments(node.args, node.inputcollid, block)
    found = compared("<=>", left, right, block)
    return replace(found, sql=f"(NOT {found.sql})")


def _null_if(node: n.NullIfExpr, block: Block) -> Typed:
    if _symbol(node) != "=":
        raise Untranslatable("NULLIF by another operator")
    left, right = arguments(node.args, node.inputcollid, block)
    equal = compared("=", left, right, block)
    if left.span is not None or left.elapsed:
        raise Untranslatable("NULLIF of intervals")
    sql = f"CASE WHEN {equal.sql} THEN CAST(NULL AS {spark_type_of(left)}) ELSE {left.sql} END"
    return replace(left, sql=sql, text=None, **merged_flags(left, right))


def _logic(node: n.BoolExpr, block: Block) -> Typed:
    parts = [condition(argument, block) for argument in node.args]
    if node.boolop == "not":
        return Typed(sql=f"(NOT {parts[0].sql})", type=BOOL, **merged_flags(*parts))
    sql = f" {node.boolop.upper()} ".join(part.sql for part in parts)
    return Typed(sql=f"({sql})", type=BOOL, **merged_flags(*parts))


def _is_null(node: n.NullTest, block: Block) -> Typed:
    found = block.translate(node.arg)
    if node.argisrow or found.type.kind == "c" or found.span is not None:
        raise Untranslatable(f"IS NULL of {found.type.name}")
    return Typed(sql=f"({found.sql} IS {'NOT ' if node.nulltesttype else ''}NULL)", type=BOOL, **merged_flags(found))


def _is_true(node: n.BooleanTest, block: Block) -> Typed:
    found = condition(node.arg, block)
    return Typed(sql=f"({found.sql} {_BOOLEAN_TESTS[node.booltesttype]})", type=BOOL, **merged_flags(found))


def _case(node: n.CaseExpr, block: Block) -> Typed:
    if node.arg is not None:
        block.case_values.append(block.translate(node.arg))
    arms = [arm for arm in node.args if isinstance(arm, n.CaseWhen)]
    conditions = [condition(arm.expr, block) for arm in arms]
    if node.arg is not None:
        block.case_values.pop()
    otherwise = node.defresult
    if otherwise is None or len(arms) != len(node.args):
        raise Untranslatable("a CASE without ELSE in the tree")
    wanted = block.world.type_of(node)
    values = alike([block.translate(one) for one in (*(arm.result for arm in arms), otherwise)], wanted)
    return case_of(conditions, values)


def _case_value(_node: n.CaseTestExpr, block: Block) -> Typed:
    if not block.case_values:
        raise Untranslatable("the value of a CASE outside of it")
    return block.case_values[-1]


def _coalesce(node: n.CoalesceExpr, block: Block) -> Typed:
    parts = [block.translate(argument) for argument in node.args]
    return first_of(alike(parts, block.world.type_of(node)))


def _extreme(node: n.MinMaxExpr, block: Block) -> Typed:
    name = "least" if node.op else "greatest"
    parts = alike(arguments(node.args, node.inputcollid, block), block.world.type_of(node))
    for part in parts:
        if part.printed_scale is not None or part.type.name == "bpchar":
            raise Untranslatable(f"{name} of {part.type.name}")
        ordering_key(collated(part, node.inputcollid, block), block)
    if len(parts) == 1:
        return parts[0]
    return replace(parts[0], sql=f"{name}({', '.join(part.sql for part in parts)})", text=None, **merged_flags(*parts))


def _function(node: n.FuncExpr, block: Block) -> Typed:
    if node.funcid not in _PROVEN_FUNCTIONS:
        raise Untranslatable(f"function {node.funcid}")
    if node.funcretset or node.funcvariadic:
        raise Untranslatable("a function of several rows" if node.funcretset else "VARIADIC")
    return call(node, arguments(node.args, node.inputcollid, block), block)


def _relabelled(node: n.RelabelType, block: Block) -> Typed:
    """The bytes stay as they are."""
    found, wanted = block.translate(node.arg), block.world.type_of(node)
    source, target = type_of(node.arg), node.resulttype
    if (source, target) not in proven.RELABELLED and not source >= FIRST_USER_OID > target:
        raise Untranslatable(f"cast of type {source} to {target}")
    return relabelled(found, wanted)


def relabelled(found: Typed, wanted: PgType) -> Typed:
    both_texts = {found.type.name, wanted.name} <= STRINGS
    return replace(found, type=wanted) if both_texts else retyped(found, wanted)


def _by_text(node: n.CoerceViaIO, block: Block) -> Typed:
    found, wanted = block.translate(node.arg), block.world.type_of(node)
    source, target = type_of(node.arg), node.resulttype
    if (source, target) not in proven.BY_TEXT and not (source >= FIRST_USER_OID and target == _TEXT):
        raise Untranslatable(f"cast of type {source} to {target}")
    return cast(found, wanted, block.settings)


def _collate(node: n.CollateExpr, block: Block) -> Typed:
    return block.translate(node.arg)


def _session_value(node: n.SQLValueFunction, block: Block) -> Typed:
    if node.op in _USERS and block.world.described.named.role:
        return Typed(sql=quoted(block.world.described.named.role), type=NAME, is_constant=True)
    match node.op:
        case 0:
            return cast(block.now(), DATE, block.settings)
        case 3:
            return block.now()
        case 7:
            return cast(block.now(), TIMESTAMP, block.settings)
    raise Untranslatable(f"SQL value function {node.op}")


def _sublink(node: n.SubLink, block: Block) -> Typed:
    from services.recompute.core.sql.sublinks import sublink

    return sublink(node, block)


def _aggregate(node: n.Aggref, block: Block) -> Typed:
    if block.grouping is None or node.agglevelsup:
        raise Untranslatable("aggregate of an outer query")
    return block.grouping.aggregate(node)


def _window(node: n.WindowFunc, block: Block) -> Typed:
    from services.recompute.core.sql.windows import window

    return window(node, block)


_HANDLERS: dict[type[Any], Callable[[Any, Block], Typed]] = {
    n.Var: _variable,
    n.Const: lambda node, block: constant(node, block.world),
    n.Param: _parameter,
    n.OpExpr: _operation,
    n.ScalarArrayOpExpr: _listed,
    n.DistinctExpr: _distinct,
    n.NullIfExpr: _null_if,
    n.BoolExpr: _logic,
    n.NullTest: _is_null,
    n.BooleanTest: _is_true,
    n.CaseExpr: _case,
    n.CaseTestExpr: _case_value,
    n.CoalesceExpr: _coalesce,
    n.MinMaxExpr: _extreme,
    n.FuncExpr: _function,
    n.RelabelType: _relabelled,
    n.CoerceViaIO: _by_text,
    n.CollateExpr: _collate,
    n.SQLValueFunction: _session_value,
    n.SubLink: _sublink,
    n.Aggref: _aggregate,
    n.WindowFunc: _window,
}
