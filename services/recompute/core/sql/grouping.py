"""GROUP BY: the step from rows to groups."""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from services.recompute.core.catalog import PgType
from services.recompute.core.certainty import Place
from services.recompute.core.sql.aggregates import Call, call_of
from services.recompute.core.sql.block import Block, parameter_of
from services.recompute.core.sql.ordering import check_distinct
from services.recompute.core.sql.typed import FLOATS, Typed, Untranslatable
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree.walking import walk


class Grouping:
    """The step from rows to groups: variables after it mean what groups have."""

    def __init__(self, block: Block, nodes: Sequence[n.Expr]) -> None:
        self._block = block
        self.name = block.world.name("g")
        self.is_whole = not nodes
        self._nodes: list[n.Expr | Place] = []
        self._keys: list[Typed] = []
        self._calls: list[str] = []
        self._parameters = block.world.name("p") if block.shared else None
        self._uses_parameters = False
        for node in nodes:
            self._add_key(node)
        self.places = frozenset(place for place in map(self._place, self._nodes) if place is not None)
        self.written = len(self._nodes)
        block.group_places = self.places

    def _add_key(self, node: n.Expr) -> None:
        if any(isinstance(inner, n.SubLink) for inner in walk(node)):
            raise Untranslatable("subquery in GROUP BY")
        resolved = self._identity(node)
        if resolved in self._nodes:
            return
        typed = self._block.translate(node)
        check_distinct(typed)
        self._nodes.append(resolved)
        self._keys.append(typed)

    def _identity(self, node: n.Expr) -> n.Expr | Place:
        """What an expression is known by: the column that it is, or itself over columns."""
        resolved = self._block.resolved(node)
        place = self._block.place(resolved)
        return resolved if place is None else place

    def _place(self, known: n.Expr | Place | None) -> Place | None:
        return known if isinstance(known, tuple) else None

    def expression(self, node: n.Expr) -> Typed | None:
        if isinstance(node, n.SubLink | n.Aggref | n.WindowFunc):
            return None
        identity = self._identity(node)
        return self._key(self._nodes.index(identity)) if identity in self._nodes[: self.written] else None

    def column(self, place: Place) -> Typed:
        """A column that is grouped by, or, as PostgreSQL saw to, one that its table's key decides."""
        if place in self._nodes:
            self._block.used |= self._block.field_at(place).reads
            return self._key(self._nodes.index(place))
        typed = self._block.input_at(place)
        if typed.type.name in FLOATS:
            # Spark would make 0 of -0 in a key.
            return self._added(Call((f"first({typed.sql})",), lambda sql: replace(typed, sql=sql[0])))
        self._nodes.append(place)
        self._keys.append(typed)
        return self._key(len(self._keys) - 1)

    def _key(self, index: int) -> Typed:
        return replace(self._keys[index], sql=f"{self.name}.k{index}", is_constant=False, text=None)

    def parameter(self, number: int, type: PgType) -> Typed:
        assert self._parameters is not None
        self._uses_parameters = True
        return parameter_of(self._parameters, number, type)

    def aggregate(self, node: n.Aggref) -> Typed:
        with self._block.before_grouping():
            return self._added(call_of(node, self._block))

    def _added(self, call: Call) -> Typed:
        found: list[str] = []
        for sql in call.calls:
            if sql not in self._calls:
                self._calls.append(sql)
            index = self._calls.index(sql)
            column = f"{self.name}.a{index}"
            # Beside a tuple that no row matches stands nothing at all: what count() gives then must be put in.
            if call.empty is not None and self.is_whole and self._parameters:
                column = f"coalesce({column}, {call.empty})"
            found.append(column)
        return call.value(found)

    @property
    def q(self) -> str:
        """Where the number of the tuple stands after grouping."""
        return f"{self._parameters}.q" if self.is_whole else f"{self.name}.q"

    @property
    def key_columns(self) -> list[str]:
        return [f"{self.name}.k{index}" for index in range(self.written)]

    def is_total(self, nodes: Sequence[n.Expr], given: Callable[[Iterable[Place]], bool]) -> bool:
        """Whether no two groups are equal in all these expressions; `given` says which columns follow from theirs."""
        known = [self._identity(node) for node in nodes]
        places = [self._place(one) for one in self._nodes[: self.written] if one not in known]
        return all(place is not None for place in places) and given(place for place in places if place is not None)

    def shown(
        self, nodes: Sequence[n.Expr], given: Callable[[Iterable[Place], Iterable[Place]], bool]
    ) -> frozenset[int] | None:
        """The places in a select list that tell the groups apart; None if the list does not show enough."""
        listed = [self._identity(node) for node in nodes]
        wanted = self._nodes[: self.written]
        found = [listed.index(one) for one in wanted if one in listed]
        places = [place for place in (self._place(listed[number]) for number in found) if place is not None]
        for number in sorted(found, reverse=True):
            # A column that follows from the others is not needed.
            place = self._place(listed[number])
            rest = [other for other in places if other != place]
            if len(found) > 1 and place is not None and given(rest, [place]):
                found.remove(number)
                places = rest
        lost = [self._place(one) for one in wanted if one not in listed]
        if any(place is None for place in lost) or not given(places, [place for place in lost if place is not None]):
            return None
        return frozenset(found)

    def sql(self, source: str, where: str) -> str:
        """The FROM clause of what follows."""
        keys = [f"{key.sql} AS k{index}" for index, key in enumerate(self._keys)]
        calls = [f"{sql} AS a{index}" for index, sql in enumerate(self._calls)]
        by = [key.sql for key in self._keys]
        if self._parameters:
            inner_q = f"{self._block.parameters_as}.q"
            keys.insert(0, f"{inner_q} AS q")
            by.insert(0, inner_q)
        # One row for each group though nothing of it is shown; a constant key would be taken for an ordinal.
        shown = ", ".join(keys + calls) or "1 AS nothing"
        group = f" GROUP BY {', '.join(f'({expression})' for expression in by)}" if by else ""
        if not by and not calls:
            shown = "count(1) AS nothing"
        inner = f"(SELECT {shown}{f' FROM {source}' if source else ''}{where}{group}) AS {self.name}"
        if not self._parameters:
            return inner
        if self.is_whole:
            return f"⟦params⟧ AS {self._parameters} LEFT JOIN {inner} ON {self.name}.q = {self._parameters}.q"
        if self._uses_parameters:
            inner += f" JOIN ⟦params⟧ AS {self._parameters} ON {self.name}.q = {self._parameters}.q"
        return inner
