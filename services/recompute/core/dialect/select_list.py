"""The select list: stars expanded, columns named as PostgreSQL names them."""

from collections.abc import Sequence

from msgspec import Struct
from sqlglot import exp

from services.recompute.core.dialect.scope import DIALECT, Block, at, folded
from services.recompute.core.dialect.typed import Untranslatable

UNNAMED = "?column?"
_NAMES: dict[type[exp.Expr], str] = {
    exp.LogicalAnd: "bool_and", exp.LogicalOr: "bool_or", exp.GroupConcat: "string_agg", exp.ArrayAgg: "array_agg",
    exp.RowNumber: "row_number", exp.DenseRank: "dense_rank", exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist", exp.FirstValue: "first_value", exp.LastValue: "last_value", exp.NthValue: "nth_value",
    exp.Exists: "exists", exp.Array: "array", exp.Extract: "extract", exp.Coalesce: "coalesce",
    exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg", exp.Min: "min", exp.Max: "max", exp.Rank: "rank",
    exp.Ntile: "ntile", exp.Lag: "lag", exp.Lead: "lead",
}  # fmt: skip


class Item(Struct, frozen=True):
    name: str
    node: exp.Expr


def items_of(select: exp.Select, block: Block) -> list[Item]:
    items: list[Item] = []
    for node in select.expressions:
        if isinstance(node, exp.Star):
            _refuse_more(node)
            items += [Item(name, expression) for name, expression in block.visible]
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            _refuse_more(node.this)
            items += _of_table(node, block)
        elif isinstance(node, exp.Alias):
            items.append(Item(folded(node.args["alias"]), node.this))
        else:
            items.append(Item(named(node), node))
    return items


def _refuse_more(star: exp.Expr) -> None:
    if any(given for given in star.args.values()):
        raise Untranslatable("* with exceptions")


def _of_table(node: exp.Column, block: Block) -> list[Item]:
    schema = node.args.get("db")
    found = [
        entry
        for entry in block.entries.values()
        if entry.alias == folded(node.args["table"]) and (schema is None or entry.schema == folded(schema))
    ]
    if len(found) != 1:
        raise Untranslatable(f"{node.sql(dialect=DIALECT)}")
    return [Item(field.name, at(found[0].name, position)) for position, field in enumerate(found[0].fields)]


def named(node: exp.Expr) -> str:
    """The name that PostgreSQL gives a column without an alias, where we know its rule."""
    match node:
        case exp.Column():
            return folded(node.this)
        case exp.Anonymous():
            return str(node.this).lower()
        case exp.Paren() | exp.Filter() | exp.Window() | exp.WithinGroup():
            return named(node.this)
        case exp.Subquery() if isinstance(node.this, exp.Select) and node.this.expressions:
            first = node.this.expressions[0]
            return folded(first.args["alias"]) if isinstance(first, exp.Alias) else named(first)
        case exp.Cast():
            return named(node.this)
        case exp.Case():
            default = node.args.get("default")
            inside = named(default) if default is not None else UNNAMED
            return inside if inside != UNNAMED else "case"
    return _NAMES.get(type(node), UNNAMED)


def order_target(node: exp.Expr, items: Sequence[Item], block: Block) -> tuple[int, exp.Expr]:
    """PostgreSQL's rule for ORDER BY: a number or an output's name is that output; else an expression over the input.

    The place among the outputs, or -1, and the expression.
    """
    if isinstance(node, exp.Literal) and not node.is_string:
        position = int(node.name) - 1
        return position, items[position].node
    if isinstance(node, exp.Column) and not node.table:
        found = [number for number, item in enumerate(items) if item.name == folded(node.this)]
        if found:
            nodes = {block.resolved(items[number].node) for number in found}
            if len(nodes) > 1:
                raise Untranslatable(f"ORDER BY {node.sql(dialect=DIALECT)}")
            return found[0], items[found[0]].node
    resolved = block.resolved(node)
    for number, item in enumerate(items):
        if block.resolved(item.node) == resolved:
            return number, item.node
    return -1, node
