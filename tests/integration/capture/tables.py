"""Tables of generated columns and what happens to their rows, told as Hypothesis can draw and shrink them."""

import random
from collections.abc import Sequence

from hypothesis import strategies as st
from msgspec import Struct
from psycopg import sql

from tests.integration.capture.literals import BuiltIn, Literal, arrays, composites, scalars

BIG_BYTES = 1 << 20
KEY_TYPES = ("int8", "text", "uuid", "numeric", "timestamptz", "bytea", "int4range", "date")
SYSTEM_COLUMNS = frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"))
# Any text is a name; of 63 bytes, so that PostgreSQL does not cut it.
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: name not in SYSTEM_COLUMNS
)


class ColumnType(Struct, frozen=True):
    """A type as DDL spells it; a declared one is made first, under a name of the table's schema."""

    spelling: str
    literals: Literal
    declaration: str | None = None
    is_big: bool = False


class Column(Struct, frozen=True):
    name: str
    type: ColumnType


class Table(Struct, frozen=True, kw_only=True):
    """`identity` is how its rows are known: key, none (it has no key), or full (a key, and FULL by the user's wish)."""

    schema: str
    name: str
    identity: str
    columns: tuple[Column, ...]  # the first one is the key, if there is one

    @property
    def place(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


class Inserted(Struct, frozen=True):
    row: tuple[str | None, ...]


class Updated(Struct, frozen=True):
    """Of the row at this place among the living ones: which columns are set, and to what."""

    place: int
    values: dict[int, str | None]


class Deleted(Struct, frozen=True):
    place: int


Step = Inserted | Updated | Deleted


class History(Struct, frozen=True, kw_only=True):
    table: Table
    steps: tuple[Step, ...]
    in_one_transaction: bool


def column_types(kinds: Sequence[BuiltIn]) -> st.SearchStrategy[ColumnType]:
    """A built-in type, an array of one, a domain, an enum, a composite, or a type with a modifier."""
    kind = st.sampled_from(kinds)
    plain = kind.map(scalar_type)
    many = kind.map(array_type)
    domain = (plain | many).map(
        lambda of: ColumnType("{}", of.literals, declaration=f"CREATE DOMAIN {{}} AS {of.spelling}")
    )
    composite = st.lists(plain | many, min_size=1, max_size=3).map(_composite)
    composite_array = composite.map(lambda of: ColumnType("{}[]", arrays(of.literals), declaration=of.declaration))
    return plain | many | domain | composite | composite_array | st.sampled_from(SPECIAL)


def scalar_type(kind: BuiltIn) -> ColumnType:
    return ColumnType(f'pg_catalog."{kind.name}"', scalars(kind))


def array_type(kind: BuiltIn) -> ColumnType:
    return ColumnType(f'pg_catalog."{kind.name}"[]', arrays(scalars(kind), kind.delimiter))


def _composite(fields: Sequence[ColumnType]) -> ColumnType:
    body = ", ".join(f'"f {number}" {field.spelling}' for number, field in enumerate(fields))
    return ColumnType(
        "{}", composites([field.literals for field in fields]), declaration=f"CREATE TYPE {{}} AS ({body})"
    )


LABELS = ("sad", "", "Größe", 'o\'k, "so" \\', "水")
ENUM = "CREATE TYPE {} AS ENUM (" + ", ".join("'" + label.replace("'", "''") + "'" for label in LABELS) + ")"
SPECIAL = (
    ColumnType("{}", st.sampled_from(LABELS), declaration=ENUM),
    ColumnType("{}[]", arrays(st.sampled_from(LABELS)), declaration=ENUM),
    ColumnType("numeric(9, 3)", st.decimals(-99999, 99999, places=4).map(str)),
    ColumnType("numeric(3, -2)", st.integers(-99900, 99900).map(str)),
    ColumnType("varchar(5)", st.text("aé水 ", max_size=5)),
    ColumnType("char(7)", st.text("aé水 ", max_size=7)),
    ColumnType("bit(5)", st.text("01", min_size=5, max_size=5)),
    ColumnType("timestamptz(2)", st.datetimes().map(str)),
    ColumnType("interval day to second(1)", st.integers(-(10**9), 10**9).map(lambda ms: f"{ms / 1000} seconds")),
    ColumnType("text", st.integers(0, 3).map(str), is_big=True),
)


def big_text(seed: str) -> str:
    """1 MiB that PostgreSQL must keep out of the row: it hardly compresses."""
    return random.Random(seed).randbytes(BIG_BYTES // 2).hex()


@st.composite
def histories(draw: st.DrawFn, kinds: Sequence[BuiltIn], max_columns: int) -> History:
    """A table and up to eight statements on its rows."""
    by_name = {kind.name: kind for kind in kinds}
    names = draw(st.lists(NAMES, min_size=2, max_size=max_columns + 1, unique=True))
    key = draw(st.sampled_from(KEY_TYPES).map(lambda name: scalar_type(by_name[name])))
    types = [key, *(draw(column_types(kinds)) for _ in names[1:])]
    table = Table(
        schema="Ё" + draw(NAMES),
        name=draw(NAMES),
        identity=draw(st.sampled_from(["key", "none", "full"])),
        columns=tuple(map(Column, names, types)),
    )
    return History(table=table, steps=draw(steps(table)), in_one_transaction=draw(st.booleans()))


def steps(table: Table, max_size: int = 8) -> st.SearchStrategy[tuple[Step, ...]]:
    values = [column.type.literals | st.none() for column in table.columns]
    insert = st.tuples(*values).map(Inserted)
    places = st.integers(0, 3)
    some = st.fixed_dictionaries({}, optional=dict(enumerate(values))).filter(bool)
    update = st.builds(Updated, places, some)
    return st.lists(insert | update | st.builds(Deleted, places), max_size=max_size).flatmap(
        lambda rest: insert.map(lambda first: (first, *rest))
    )
