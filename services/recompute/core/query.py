"""A query that is kept by looking at changed rows alone: one table, a condition, plain columns."""

from collections.abc import Sequence

import sqlglot
from msgspec import Struct
from sqlglot import exp
from sqlglot.errors import SqlglotError

from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import TextSettings
from proto.tidewire.v1.deltas_pb2 import ResultColumn
from services.recompute.core.predicate import Always, Binder, Junction, Predicate
from services.recompute.core.table import Table
from services.recompute.errors import NotSupported

DIALECT = "postgres"
PLAIN_TYPES = {
    "int2", "int4", "int8", "bool", "text", "varchar", "bpchar", "name", "uuid", "numeric", "oid", "json", "jsonb",
    "float4", "float8", "time", "inet", "cidr", "macaddr",
}  # fmt: skip
_CLOCK_TYPES = {"date", "timestamp", "timestamptz"}
_UTC = {"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu"}


class Select(Struct, frozen=True):
    """A parsed query of the kind that is supported, before its table is known."""

    select: exp.Select
    schema: str | None
    table: str
    alias: str


class RowLocal(Struct, frozen=True, kw_only=True):
    """The bound query: which rows, and which of their columns."""

    table: Table
    predicate: Predicate
    outputs: tuple[int, ...]
    names: tuple[str, ...]
    key_positions: tuple[int, ...]

    def project(self, row: ResultRow) -> ResultRow:
        return tuple([row[position] for position in self.outputs])

    @property
    def columns(self) -> list[ResultColumn]:
        found = (self.table.columns[position] for position in self.outputs)
        return [
            ResultColumn(name=name, type_oid=column.type_oid, type_modifier=column.type_modifier)
            for name, column in zip(self.names, found, strict=True)
        ]


def parse(sql: str) -> Select:
    try:
        tree = sqlglot.parse_one(sql, dialect=DIALECT)
    except SqlglotError as error:
        raise NotSupported("SQL that our parser does not read") from error
    if not isinstance(tree, exp.Select):
        raise NotSupported(f"{type(tree).__name__.upper()} queries")
    for clause, given in tree.args.items():
        if given and clause not in ("expressions", "from_", "where", "kind"):
            raise NotSupported(f"{clause.rstrip('_').upper()} in a query")
    source = tree.args.get("from_")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise NotSupported("queries that do not read exactly one table")
    if any(given for part, given in table.args.items() if part not in ("this", "db", "alias", "only")):
        raise NotSupported("a table with anything but a schema and an alias")
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise NotSupported("column aliases of a table")
    schema = table.args.get("db")
    name = _name(table.this)
    return Select(tree, None if schema is None else _name(schema), name, _name(alias.this) if alias else name)


def bind(
    parsed: Select,
    table: Table,
    *,
    parameters: Sequence[bytes | None],
    filter_sql: str,
    text_settings: TextSettings,
) -> RowLocal:
    """The query over its table; raises NotSupported with the reason."""
    if table.obstacle:
        raise NotSupported(table.obstacle)
    outputs: list[tuple[str, int]] = []
    for item in parsed.select.expressions:
        outputs += _output(item, parsed, table)
    for _, position in outputs:
        _refuse_other_text(table.columns[position].type_name, text_settings)
    where = parsed.select.args.get("where")
    binder = Binder(table.columns, lambda column: _position(column, parsed, table), parameters)
    predicate = Always() if where is None else binder.bind(where.this)
    if filter_sql:
        predicate = Junction("and", predicate, _filter(filter_sql, outputs, table))
    positions = tuple(position for _, position in outputs)
    return RowLocal(
        table=table,
        predicate=predicate,
        outputs=positions,
        names=tuple(name for name, _ in outputs),
        key_positions=_key(table, positions),
    )


def _output(item: exp.Expr, parsed: Select, table: Table) -> list[tuple[str, int]]:
    if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
        if any(given for given in item.args.values() if isinstance(given, list)):
            raise NotSupported("* with exceptions")
        return [(column.name, position) for position, column in enumerate(table.columns)]
    column, name = (item.this, _name(item.args["alias"])) if isinstance(item, exp.Alias) else (item, None)
    if not isinstance(column, exp.Column):
        raise NotSupported(f"{item.sql(dialect=DIALECT)} in the select list")
    return [(name or _name(column.this), _position(column, parsed, table))]


def _filter(filter_sql: str, outputs: list[tuple[str, int]], table: Table) -> Predicate:
    """A filter names result columns."""

    def lookup(column: exp.Column) -> int:
        found = [position for name, position in outputs if name == _name(column.this)]
        if len(found) != 1 or column.table:
            raise NotSupported(f"the filter's column {column.sql(dialect=DIALECT)}")
        return found[0]

    try:
        condition = sqlglot.parse_one(filter_sql, into=exp.Condition, dialect=DIALECT)
    except SqlglotError as error:
        raise NotSupported("a filter that our parser does not read") from error
    return Binder(table.columns, lookup, ()).bind(condition)


def _position(column: exp.Column, parsed: Select, table: Table) -> int:
    if column.args.get("db") or (column.table and _name(column.args["table"]) != parsed.alias):
        raise NotSupported(f"the column {column.sql(dialect=DIALECT)}")
    position = table.position(_name(column.this))
    if position is None:
        raise NotSupported(f"{column.sql(dialect=DIALECT)}, which is not a column of {table.name}")
    return position


def _key(table: Table, outputs: tuple[int, ...]) -> tuple[int, ...]:
    if not table.key or not set(table.key) <= set(outputs):
        return ()
    return tuple(outputs.index(position) for position in table.key)


def _refuse_other_text(type_name: str, settings: TextSettings) -> None:
    """The log holds text under pinned settings; refuse what this client would see as another text."""
    if type_name in _CLOCK_TYPES:
        zone = type_name == "timestamptz" and settings.time_zone not in _UTC
        if zone or not settings.date_style.startswith("ISO"):
            raise NotSupported(f"{type_name} under TimeZone {settings.time_zone}, DateStyle {settings.date_style}")
    elif type_name not in PLAIN_TYPES:
        raise NotSupported(f"columns of type {type_name}")
    elif type_name.startswith("float") and settings.extra_float_digits < 1:
        raise NotSupported(f"extra_float_digits = {settings.extra_float_digits}")


def _name(identifier: exp.Expr) -> str:
    """An identifier as PostgreSQL reads it: folded to lower case unless quoted."""
    text = str(identifier.this)
    return text if identifier.args.get("quoted") else text.lower()
