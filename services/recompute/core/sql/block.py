"""One query of the tree while it is translated: what the variables in its expressions stand for."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Collation, PgType
from services.recompute.core.certainty import Facts, Place
from services.recompute.core.sql.typed import TIMESTAMPTZ, Typed, Untranslatable
from services.recompute.core.sql.world import Field, NotShared, Origin, Rows, World
from services.recompute.core.tree import nodes as n

if TYPE_CHECKING:
    from services.recompute.core.sql.grouping import Grouping

_JOIN, _GROUP = 2, 9


class Entry(Struct, frozen=True, kw_only=True):
    """A FROM item under our own unique name."""

    name: str
    fields: tuple[Field, ...]
    # The places of a table's columns by their numbers in the catalog; a query's are counted from 1.
    places: Mapping[int, int] | None = None


class Block:
    """`outer` is the query around; a FROM item does not see it, but what that one sees (`sees_outer` is False)."""

    def __init__(
        self, world: World, query: n.Query | None, outer: "Block | None", *, top: bool = False, sees_outer: bool = True
    ) -> None:
        self.world = world
        self.query = query
        self.outer = outer
        self.sees_outer = sees_outer
        self.top = top
        # By their number in the range table.
        self.entries: dict[int, Entry] = {}
        self.ctes: dict[str, Rows] = {}
        self.facts = Facts(keys={}, equal=[], fixed=set(), single=[])
        self.nullable: set[str] = set()
        # Columns that WHERE lets no NULL through for.
        self.present: set[Place] = set()
        self.grouping: Grouping | None = None
        # Columns that the rows of one group have in common.
        self.group_places: frozenset[Place] = frozenset()
        self.used: set[Origin] = set()
        self.tables: set[int] = set()
        self.unstable = False
        self.correlated = False
        # Whether Spark allows IN and EXISTS where we are: in conditions, not in select lists.
        self.in_condition = False
        self.only_true_counts = False
        # What CASE compares, and the columns of the subquery that a comparison is with.
        self.case_values: list[Typed] = []
        self.columns_of_sublink: tuple[Typed, ...] = ()
        # Sees the parameters' table under this name; None inside FROM items where it is not in sight.
        self.parameters_as: str | None = world.name("p") if world.shared and top else None

    @property
    def settings(self) -> TextSettings:
        return self.world.settings

    @property
    def collation(self) -> Collation:
        return self.world.described.collation

    @property
    def shared(self) -> bool:
        return self.world.shared and self.top

    def translate(self, node: n.Expr) -> Typed:
        from services.recompute.core.sql.expressions import translate

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

    @contextmanager
    def as_condition(self) -> Iterator[None]:
        """What is translated inside decides which rows there are."""
        outside = self.in_condition, self.only_true_counts
        self.in_condition = self.only_true_counts = True
        try:
            yield
        finally:
            self.in_condition, self.only_true_counts = outside

    @contextmanager
    def below(self, node: n.Expr) -> Iterator[None]:
        """Under anything but AND, OR and NOT it matters whether a condition is FALSE or NULL."""
        outside = self.only_true_counts
        self.only_true_counts = outside and isinstance(node, n.BoolExpr | n.SubLink)
        try:
            yield
        finally:
            self.only_true_counts = outside

    def intercepted(self, node: n.Expr) -> Typed | None:
        """What a node means by its place: an expression of GROUP BY."""
        if self.grouping is None or isinstance(node, n.Var | n.Const | n.Param):
            return None
        return self.grouping.expression(node)

    def variable(self, var: n.Var) -> Typed:
        """Raises Untranslatable where Spark does not see so far out."""
        found, crossed = self.above(var.varlevelsup)
        if crossed > 1:
            raise Untranslatable("a column of a query further out")
        if crossed:
            self.correlated = True
        return found.at_level(replace(var, varlevelsup=0))

    def above(self, levels: int) -> tuple["Block", int]:
        """The query so many levels up, and how many subqueries lie between."""
        block, crossed = self, 0
        for _ in range(levels):
            if block.outer is None:
                raise Untranslatable("a column of a query that is not there")
            crossed += block.sees_outer
            block = block.outer
        return block, crossed

    def at_level(self, var: n.Var) -> Typed:
        place = self.place(var)
        if place is None:
            return self.translate(self.resolved(var))
        return self.at(place)

    def place(self, node: n.Expr) -> Place | None:
        """The input and its column that an expression is, if it is one."""
        node = self.resolved(node) if isinstance(node, n.Var) else node
        if not isinstance(node, n.Var) or node.varlevelsup or node.varno not in self.entries:
            return None
        return self.entries[node.varno].name, self.position(node)

    def position(self, var: n.Var) -> int:
        entry = self.entries[var.varno]
        place = var.varattno - 1 if entry.places is None else entry.places.get(var.varattno, -1)
        if var.varattno < 1 or not 0 <= place < len(entry.fields):
            raise Untranslatable("a whole row" if var.varattno == 0 else "a system column")
        return place

    def range_entry(self, number: int) -> n.RangeTblEntry:
        entry = self.query.rtable[number - 1] if self.query is not None and number <= len(self.query.rtable) else None
        if not isinstance(entry, n.RangeTblEntry):
            raise Untranslatable("a range table that is not understood")
        return entry

    def resolved(self, node: n.Expr) -> n.Expr:
        """The expression over our inputs alone: columns of joins and of groups put in, so that equals are equal."""
        if isinstance(node, n.Var):
            return self._resolved_var(node)
        if isinstance(node, n.Query | n.SubLink | n.Const | n.Param):
            return node
        changed = {}
        for name in node.__struct_fields__:
            value = getattr(node, name)
            mapped = self._resolved_value(value)
            if mapped is not value:
                changed[name] = mapped
        return replace(node, **changed) if changed else node

    def _resolved_value(self, value: object) -> object:
        if isinstance(value, Struct):
            return self.resolved(value)  # type: ignore[arg-type]
        if isinstance(value, tuple) and any(isinstance(item, Struct) for item in value):
            return tuple(self._resolved_value(item) for item in value)
        return value

    def _resolved_var(self, var: n.Var) -> n.Expr:
        if var.varlevelsup or var.varno in self.entries or self.query is None:
            return var
        entry = self.range_entry(var.varno)
        parts = {_JOIN: entry.joinaliasvars, _GROUP: entry.groupexprs}.get(entry.rtekind)
        if parts is None or not 0 < var.varattno <= len(parts):
            raise Untranslatable("a column of what is not in FROM" if parts is None else "a whole row")
        return self.resolved(parts[var.varattno - 1])

    def at(self, place: Place) -> Typed:
        if self.grouping is not None:
            return self.grouping.column(place)
        return self.input_at(place)

    def input_at(self, place: Place) -> Typed:
        field = self.field_at(place)
        self.used |= field.reads
        return replace(field.typed, sql=f"{place[0]}.c{place[1]}")

    def field_at(self, place: Place) -> Field:
        return self.inputs[place[0]].fields[place[1]]

    @property
    def inputs(self) -> Mapping[str, Entry]:
        return {entry.name: entry for entry in self.entries.values()}

    def parameter(self, number: int) -> Typed:
        types = self.world.described.parameter_types
        if not 1 <= number <= len(types):
            raise Untranslatable(f"parameter ${number}")
        if self.world.shared:
            if self.parameters_as is None:
                raise NotShared
            if self.grouping is not None:
                return self.grouping.parameter(number, types[number - 1])
            return parameter_of(self.parameters_as, number, types[number - 1])
        return Typed(sql=f"⟦p{number}⟧", type=types[number - 1], is_constant=True)

    def now(self) -> Typed:
        self.world.reads_clock = True
        return Typed(sql="⟦now⟧", type=TIMESTAMPTZ, is_constant=True, reads_clock=True)


def parameter_of(table: str, number: int, type: PgType) -> Typed:
    return Typed(sql=f"{table}.p{number}", type=type)
