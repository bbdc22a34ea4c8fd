"""WITH: named queries, put in where their names stand."""

from collections.abc import Mapping

from msgspec.structs import replace
from sqlglot import exp

from services.recompute.core.dialect.scope import Block, Field, Query, World, folded
from services.recompute.core.dialect.typed import Untranslatable


def with_named(node: exp.Expr, world: World, outer: Block | None, ctes: Mapping[str, Query]) -> Mapping[str, Query]:
    """The named queries that a query sees: its own over those around it."""
    clause = node.args.get("with_")
    if clause is None:
        return ctes
    known = dict(ctes)
    for cte in clause.expressions:
        alias = cte.args["alias"]
        name = folded(alias.this)
        if clause.args.get("recursive") and any(
            not table.db and isinstance(table.this, exp.Identifier) and folded(table.this) == name
            for table in cte.this.find_all(exp.Table)
        ):
            raise Untranslatable("recursive query")
        if any(given for part, given in cte.args.items() if part not in ("this", "alias", "materialized")):
            raise Untranslatable("WITH of that kind")
        query = world.query(cte.this, outer, known, False)
        renamed = alias.args.get("columns") or ()
        fields = tuple(
            Field(folded(renamed[number]), field.typed, field.not_null, field.reads) if number < len(renamed) else field
            for number, field in enumerate(query.fields)
        )
        known[name] = replace(query, fields=fields, sql=f"({query.sql})")
    return known
