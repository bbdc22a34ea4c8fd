"""Which column a name means in a SELECT and in those around it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import exp

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Collation, Described, PgType
from services.recompute.core.certainty import Facts, Place
from services.recompute.core.dialect.scalar import translate
from services.recompute.core.dialect.typed import TIMESTAMPTZ, Typed, Untranslatable

if TYPE_CHECKING:
    from services.recompute.core.dialect.aggregates import Grouping

DIALECT = "postgres"
# A table of the log and the place of one of its columns.
Origin: TypeAlias = tuple[int, int]
_INPUT = "⟦in⟧"


class Field(Struct, frozen=True):
    """A column of a FROM item or of a query: in Spark it is called c0, c1 … by its place."""

    name: str
    typed: Typed
    not_null: bool = False
    # What its value depends on, beside what the rows of its query depend on.
    reads: frozenset[Origin] = frozenset()


class Query(Struct, frozen=True, kw_only=True):
    """A translated query: Spark SQL whose columns are c0, c1 …; at a template's top q and ord stand before them."""

    sql: str
    fields: tuple[Field, ...]
    # Sets of columns that are different in each row.
    keys: tuple[frozenset[int], ...] = ()
    # What decides which rows there are.
    reads: frozenset[Origin] = frozenset()
    tables: frozenset[int] = frozenset()
    ordered: bool = False
    unstable: bool = False
    correlated: bool = False
    # An aggregate without GROUP BY: a row even of nothing; and whether HAVING or LIMIT may take it away.
    is_whole: bool = False
    is_cut: bool = False


class Entry(Struct, frozen=True, kw_only=True):
    """A FROM item: `name` is ours and unique, `alias` is what the query calls it."""

    name: str
    alias: str
    schema: str
    fields: tuple[Field, ...]


class World:
    """What is the same in all parts of a template: its catalog, its parameters, and what was found out so far."""

    def __init__(
        self,
        described: Described,
        settings: TextSettings,
        *,
        shared: bool,
        query: Callable[[exp.Expr, "Block | None", Mapping[str, Query], bool], Query],
        collation: Collation,
    ) -> None:
        self.described = described
        self.settings = settings
        # Parameter tuples are a table that the top SELECT joins; else parameters are literals.
        self.shared = shared
        self.query = query
        self.collation = collation
        self.reads_clock = False
        self.views: dict[int, Query] = {}
        self._numbers = 0

    def name(self, letter: str) -> str:
        self._numbers += 1
        return f"{letter}{self._numbers}"


class Block:
    """One SELECT while it is translated: the scope of its expressions."""

    def __init__(self, world: World, outer: "Block | None", ctes: Mapping[str, Query], *, top: bool) -> None:
        self.world = world
        self.outer = outer
        self.ctes = dict(ctes)
        self.top = top
        self.entries: dict[str, Entry] = {}
        # What an unqualified name may mean, and what * stands for, in order.
        self.visible: list[tuple[str, exp.Expr]] = []
        self.facts = Facts(keys={}, equal=[], fixed=set(), single=[])
        self.nullable: set[str] = set()
        # Columns that WHERE lets no NULL through for.
        self.present: set[Place] = set()
        self.grouping: Grouping | None = None
        # Columns that the rows of one group have in common.
        self.group_places: frozenset[Place] = frozenset()
        self.windows: Mapping[str, exp.Window] = {}
        self.used: set[Origin] = set()
        self.tables: set[int] = set()
        self.unstable = False
        self.correlated = False
        self.uses_parameters = False
        # Whether Spark allows IN and EXISTS where we are: in conditions, not in select lists.
        self.in_condition = False
        # Sees the parameters' table under this name; None inside FROM items where it is not in sight.
        self.parameters_as: str | None = world.name("p") if world.shared and top else None

    @property
    def settings(self) -> TextSettings:
        return self.world.settings

    @property
    def collation(self) -> Collation:
        return self.world.collation

    @property
    def shared(self) -> bool:
        return self.world.shared and self.top

    def translate(self, node: exp.Expr) -> Typed:
        assert isinstance(node, exp.Expression)
        typed = translate(node, self)
        self.unstable |= typed.unstable
        return typed

    @contextmanager
    def recorded(self) -> Iterator[set[Origin]]:
        """What is used inside is told, and not counted as used by the block."""
        outside, self.used = self.used, set()
        try:
            yield self.used
        finally:
            self.used = outside

    @contextmanager
    def before_grouping(self) -> Iterator[None]:
        """Inside an aggregate names mean the rows that are aggregated."""
        grouping, self.grouping = self.grouping, None
        try:
            yield
        finally:
            self.grouping = grouping

    def intercepted(self, node: exp.Expr) -> Typed | None:
        if isinstance(node, exp.Column):
            return None
        if self.grouping is not None:
            found = self.grouping.expression(node)
            if found is not None:
                return found
        if isinstance(node, exp.Window):
            from services.recompute.core.dialect.windows import window

            return window(node, self)
        if isinstance(node, exp.WithinGroup):
            raise Untranslatable(f"aggregate {node.this.sql(dialect=DIALECT)}")
        if isinstance(node, exp.Filter) or is_aggregate(node):
            if self.grouping is None:
                raise Untranslatable(f"aggregate {node.sql(dialect=DIALECT)} of an outer query")
            return self.grouping.aggregate(node)
        return None

    def column(self, node: exp.Column) -> Typed:
        place = place_of(node)
        if place is not None:
            return self.at(place)
        found = self.lookup(node)
        if found is not None:
            place = place_of(found)
            return self.at(place) if place is not None else self.translate(found)
        if self.outer is None:
            raise Untranslatable(f"column {node.sql(dialect=DIALECT)}")
        if self.outer.lookup(node) is None:
            # Spark sees no further than the query around.
            raise Untranslatable(f"column {node.sql(dialect=DIALECT)} of a query further out")
        self.correlated = True
        return self.outer.column(node)

    def at(self, place: Place) -> Typed:
        if self.grouping is not None:
            return self.grouping.column(place)
        return self.input_at(place)

    def input_at(self, place: Place) -> Typed:
        name, position = place
        field = self.entries[name].fields[position]
        self.used |= field.reads
        return replace(field.typed, sql=f"{name}.c{position}")

    def field_at(self, place: Place) -> Field:
        return self.entries[place[0]].fields[place[1]]

    def parameter(self, number: int) -> Typed:
        types = self.world.described.parameter_types
        if not 1 <= number <= len(types):
            raise Untranslatable(f"parameter ${number}")
        self.uses_parameters = True
        if self.world.shared:
            if self.parameters_as is None:
                raise NotShared
            if self.grouping is not None:
                return self.grouping.parameter(number, types[number - 1])
            return parameter_of(self.parameters_as, number, types[number - 1])
        return Typed(sql=f"⟦p{number}⟧", type=types[number - 1], is_constant=True)

    def subquery(self, node: exp.Expr) -> Typed:
        from services.recompute.core.dialect.subqueries import subquery

        return subquery(node, self)

    def now(self) -> Typed:
        self.world.reads_clock = True
        return Typed(sql="⟦now⟧", type=TIMESTAMPTZ, is_constant=True, reads_clock=True)

    def lookup(self, node: exp.Column) -> exp.Expr | None:
        """The expression over our inputs that a column's name means here; None if it must be an outer query's."""
        name = folded(node.this)
        if node.args.get("catalog") is not None:
            raise Untranslatable(f"name {node.sql(dialect=DIALECT)}")
        table = node.args.get("table")
        if table is None:
            found = [expression for shown, expression in self.visible if shown == name]
            if not found and any(entry.alias == name for entry in self.entries.values()):
                raise Untranslatable(f"whole row of {name}")
        else:
            schema = node.args.get("db")
            found = [
                at(entry.name, position)
                for entry in self.entries.values()
                if entry.alias == folded(table) and (schema is None or entry.schema == folded(schema))
                for position, field in enumerate(entry.fields)
                if field.name == name
            ]
        if len(found) > 1:
            raise Untranslatable(f"name {node.sql(dialect=DIALECT)}")
        return found[0] if found else None

    def resolved(self, node: exp.Expr) -> exp.Expr:
        """The expression with our own columns by place, so that two that mean the same are equal."""

        def one(inner: exp.Expr) -> exp.Expr:
            if isinstance(inner, exp.Column) and place_of(inner) is None and not isinstance(inner.this, exp.Star):
                found = self.lookup(inner)
                return found.copy() if found is not None else inner
            return self.resolved(inner.this) if isinstance(inner, exp.Paren) else inner

        return node if node.find(exp.Query) else node.transform(one)


class NotShared(Exception):
    """A parameter stands where the table of parameters is not in sight."""


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc) or (isinstance(node, exp.Anonymous) and str(node.this).lower() == "every")


def parameter_of(table: str, number: int, type: PgType) -> Typed:
    return Typed(sql=f"{table}.p{number}", type=type)


def at(name: str, position: int) -> exp.Column:
    return exp.Column(
        this=exp.Identifier(this=f"c{position}", quoted=True),
        table=exp.Identifier(this=name, quoted=True),
        catalog=exp.Identifier(this=_INPUT, quoted=True),
    )


def place_of(node: exp.Expr | None) -> Place | None:
    if isinstance(node, exp.Column) and node.catalog == _INPUT:
        return node.table, int(node.name.removeprefix("c"))
    return None


def folded(identifier: exp.Expr) -> str:
    """A name as PostgreSQL folds it."""
    if not isinstance(identifier, exp.Identifier):
        raise Untranslatable(f"name {identifier.sql(dialect=DIALECT)}")
    name: str = identifier.this
    return name if identifier.args.get("quoted") else name.lower()
