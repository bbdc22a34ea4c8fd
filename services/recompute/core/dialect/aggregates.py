"""GROUP BY and the aggregate functions."""

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace
from sqlglot import exp

from services.recompute.core.catalog import Collation, PgType
from services.recompute.core.certainty import Place
from services.recompute.core.dialect.forms import equality_key, is_one_text, ordering_key
from services.recompute.core.dialect.numerics import NARROW, as_decimal, digits_of, numeric_text, scale_sql
from services.recompute.core.dialect.ordering import check_distinct, sort_key
from services.recompute.core.dialect.scope import DIALECT, Block, at, is_aggregate, parameter_of, place_of
from services.recompute.core.dialect.typed import (
    BOOL,
    FLOAT8,
    FLOATS,
    INT8,
    NUMERIC,
    STRINGS,
    TEXT,
    Typed,
    Untranslatable,
)  # fmt: skip


class Call(Struct, frozen=True):
    """An aggregate in Spark: the calls that it needs, and the value made of what they give."""

    calls: tuple[str, ...]
    value: Callable[[Sequence[str]], Typed]
    # What a call gives where there are no rows, if it is not NULL.
    empty: str | None = None


class Grouping:
    """The step from rows to groups: names after it mean what groups have."""

    def __init__(self, block: Block, nodes: Sequence[exp.Expr]) -> None:
        self._block = block
        self.name = block.world.name("g")
        self.is_whole = not nodes
        self._nodes: list[exp.Expr] = []
        self._keys: list[Typed] = []
        self._calls: list[str] = []
        self._firsts: dict[Place, str] = {}
        self._empty: dict[int, str] = {}
        self._parameters = block.world.name("p") if block.shared else None
        self._uses_parameters = False
        for node in nodes:
            self._add_key(node)
        self.places = frozenset(place for place in map(place_of, self._nodes) if place is not None)
        self.written = len(self._nodes)

    def _add_key(self, node: exp.Expr) -> None:
        if node.find(exp.Query):
            raise Untranslatable("subquery in GROUP BY")
        resolved = self._block.resolved(node)
        if resolved in self._nodes:
            return
        typed = self._block.translate(resolved)
        if typed.text is not None:
            typed = Typed(sql=typed.sql, type=TEXT)
        check_distinct(typed)
        self._nodes.append(resolved)
        self._keys.append(typed)

    def index(self, node: exp.Expr) -> int | None:
        """The place among the keys of an expression, as PostgreSQL would find it."""
        resolved = self._block.resolved(node)
        return self._nodes.index(resolved) if resolved in self._nodes[: self.written] else None

    def expression(self, node: exp.Expr) -> Typed | None:
        if isinstance(node, exp.Literal | exp.Paren | exp.Null | exp.Boolean) or node.find(exp.Query):
            return None
        index = self.index(node)
        return None if index is None else self._key(index)

    def column(self, place: Place) -> Typed:
        """A column that is grouped by, or, as PostgreSQL saw to, one that its table's key decides."""
        for index, node in enumerate(self._nodes):
            if place_of(node) == place:
                self._block.used |= self._block.field_at(place).reads
                return self._key(index)
        typed = self._block.input_at(place)
        if typed.type.name in FLOATS:
            # Spark would make 0 of -0 in a key.
            return self._added(Call((f"first({typed.sql})",), lambda sql: replace(typed, sql=sql[0])))
        self._nodes.append(at(*place))
        self._keys.append(typed)
        return self._key(len(self._keys) - 1)

    def _key(self, index: int) -> Typed:
        return replace(self._keys[index], sql=f"{self.name}.k{index}", is_constant=False)

    def parameter(self, number: int, type: PgType) -> Typed:
        assert self._parameters is not None
        self._uses_parameters = True
        return parameter_of(self._parameters, number, type)

    def aggregate(self, node: exp.Expr) -> Typed:
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

    def is_total(self, nodes: Sequence[exp.Expr], given: Callable[[Iterable[Place]], bool]) -> bool:
        """Whether no two groups are equal in all these expressions; `given` says which columns follow from theirs."""
        others = [node for node in self._nodes[: self.written] if node not in nodes]
        places = [place_of(node) for node in others]
        return all(place is not None for place in places) and given(place for place in places if place is not None)

    def shown(
        self, nodes: Sequence[exp.Expr], given: Callable[[Iterable[Place], Iterable[Place]], bool]
    ) -> frozenset[int] | None:
        """The places in a select list that tell the groups apart; None if the list does not show enough."""
        resolved = [self._block.resolved(node) for node in nodes]
        wanted = self._nodes[: self.written]
        found = [resolved.index(node) for node in wanted if node in resolved]
        missing = [node for node in wanted if node not in resolved]
        places = [place for place in (place_of(resolved[number]) for number in found) if place is not None]
        for number in sorted(found, reverse=True):
            # A column that follows from the others is not needed.
            place = place_of(resolved[number])
            rest = [other for other in places if other != place]
            if len(found) > 1 and place is not None and given(rest, [place]):
                found.remove(number)
                places = rest
        lost = [place_of(node) for node in missing]
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


def call_of(node: exp.Expr, block: Block, *, windowed: bool = False) -> Call:
    """An aggregate call over the block's rows, with its FILTER."""
    if isinstance(node, exp.Filter):
        if windowed:
            raise Untranslatable("FILTER of a window")
        inside = call_of(node.this, block)
        condition = _plain(node.expression.this, block).sql
        calls = tuple(f"{call} FILTER (WHERE {condition})" for call in inside.calls)
        return Call(calls, inside.value, inside.empty)
    if isinstance(node, exp.WithinGroup):
        raise Untranslatable(f"aggregate {node.this.sql(dialect=DIALECT)}")
    if isinstance(node, exp.Count):
        return _count(node, block, windowed=windowed)
    if isinstance(node, exp.GroupConcat) and not windowed:
        return _string_agg(node, block)
    distinct, argument = _argument(node)
    typed = _plain(argument, block, windowed=windowed)
    if typed.deferred:
        raise Untranslatable("aggregate of a quotient")
    match node:
        case exp.Sum():
            return _sum(typed, distinct)
        case exp.Avg():
            return _avg(typed, distinct)
        case exp.Min() | exp.Max():
            return _extreme("min" if isinstance(node, exp.Min) else "max", typed, block)
        case exp.LogicalAnd() | exp.LogicalOr() | exp.Anonymous():
            if typed.type != BOOL:
                raise Untranslatable("bool_and of another type")
            name = "bool_or" if isinstance(node, exp.LogicalOr) else "bool_and"
            return Call((f"{name}({typed.sql})",), lambda sql: Typed(sql=sql[0], type=BOOL))
    raise Untranslatable(f"aggregate {node.sql(dialect=DIALECT)}")


def _argument(node: exp.Expr) -> tuple[str, exp.Expr]:
    argument = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    if isinstance(argument, exp.Distinct):
        if len(argument.expressions) != 1 or argument.args.get("on"):
            raise Untranslatable("DISTINCT over several values")
        return "DISTINCT ", argument.expressions[0]
    if isinstance(argument, exp.Order):
        raise Untranslatable("ORDER BY in an aggregate")
    return "", argument


def _plain(node: exp.Expr, block: Block, *, windowed: bool = False) -> Typed:
    """An aggregate's argument; one over outer columns alone would be an aggregate of that outer query."""
    columns = [column for column in node.find_all(exp.Column) if not isinstance(column.this, exp.Star)]
    if node.find(exp.Query):
        raise Untranslatable("subquery in an aggregate")
    if windowed:
        return block.translate(node)
    if columns and all(place_of(column) is None and block.lookup(column) is None for column in columns):
        raise Untranslatable("aggregate of an outer query")
    if any(is_aggregate(inner) for inner in node.walk()):
        raise Untranslatable("aggregate in an aggregate")
    typed = block.translate(node)
    if typed.text is not None:
        raise Untranslatable("aggregate of a literal")
    return typed


def _count(node: exp.Count, block: Block, *, windowed: bool) -> Call:
    if node.expressions:
        raise Untranslatable("count of several values")
    if node.this is None or isinstance(node.this, exp.Star):
        call = "count(1)"
    else:
        distinct, argument = _argument(node)
        typed = _plain(argument, block, windowed=windowed)
        call = f"count({distinct}{equality_key(typed) if distinct else typed.sql})"
    return Call((call,), lambda sql: Typed(sql=sql[0], type=INT8), empty="0L")


def _sum(typed: Typed, distinct: str) -> Call:
    call = f"sum({distinct}{typed.sql})"
    match typed.type.name:
        case "int2" | "int4":
            return Call((call,), lambda sql: Typed(sql=sql[0], type=INT8))
        case "int8":
            # More than a bigint holds makes Spark fail; PostgreSQL then has the answer.
            return Call(
                (call,), lambda sql: Typed(sql=f"CAST({sql[0]} AS DECIMAL(19,0))", type=NUMERIC, digits=(19, 0))
            )
        case "numeric":
            return _sum_of_numeric(typed, distinct)
        case "float8":
            return Call((call,), lambda sql: _finite(sql[0]))
    raise Untranslatable(f"sum of {typed.type.name}")


def _sum_of_numeric(typed: Typed, distinct: str) -> Call:
    """PostgreSQL prints a sum with the greatest scale that was added."""
    held = as_decimal(typed, NARROW)
    assert held.digits is not None
    precision, scale = held.digits
    digits = (min(38, precision + 10), scale)
    call = f"sum({distinct}{held.sql})"
    if held.printed_scale is None:
        return Call((call,), lambda sql: Typed(sql=sql[0], type=NUMERIC, digits=digits))
    return Call(
        (call, f"max({scale_sql(held)})"),
        lambda sql: Typed(sql=sql[0], type=NUMERIC, digits=digits, printed_scale=sql[1]),
    )


def _finite(sql: str) -> Typed:
    """A float sum. What Spark calls infinity is an error in PostgreSQL, or one of its inputs: it is asked."""
    checked = f"CASE WHEN abs({sql}) = double('Infinity') THEN raise_error('infinite sum') ELSE {sql} END"
    return Typed(sql=checked, type=FLOAT8, unstable=True)


def _avg(typed: Typed, distinct: str) -> Call:
    count = f"count({distinct}{typed.sql})"
    total = _sum(typed, distinct)
    if typed.type.name == "float8":
        return Call(
            (*total.calls, count),
            lambda sql: replace(_finite(sql[0]), sql=f"({_finite(sql[0]).sql} / nullif({sql[-1]}, 0))"),
        )
    # PostgreSQL divides sum by count and decides the scale by their digits: rendering does that.
    return Call(
        (*total.calls, count),
        lambda sql: Typed(
            sql=f"concat({numeric_text(_as_numeric(total.value(sql)))}, ' ', CAST({sql[-1]} AS STRING), ' /')",
            type=NUMERIC,
            deferred=True,
        ),
    )


def _as_numeric(total: Typed) -> Typed:
    return total if total.type.name == "numeric" else Typed(sql=total.sql, type=NUMERIC, digits=(19, 0))


def _extreme(name: str, typed: Typed, block: Block) -> Call:
    if typed.type.name == "bpchar" or typed.type.name == "bool":
        raise Untranslatable(f"{name} of {typed.type.name}")
    ordering_key(typed, block)
    if not is_one_text(typed) and typed.type.name not in FLOATS:
        raise Untranslatable(f"{name} of {typed.type.name}")
    type = typed.type
    result = replace(type, modifier=-1)
    if type.name in STRINGS:
        result = replace(TEXT, collation=type.collation)
    digits = digits_of(typed) if type.name == "numeric" else None
    return Call((f"{name}({typed.sql})",), lambda sql: Typed(sql=sql[0], type=result, digits=digits))


def _string_agg(node: exp.GroupConcat, block: Block) -> Call:
    argument, order, distinct = node.this, [], ""
    separator = node.args.get("separator")
    if isinstance(argument, exp.Order):
        order, argument = list(argument.expressions), argument.this
    if isinstance(argument, exp.Distinct):
        distinct, argument = "DISTINCT ", argument.expressions[0]
    if not isinstance(separator, exp.Literal) or not separator.is_string:
        raise Untranslatable("separator of string_agg that is no literal")
    if order and isinstance(separator, exp.Order):
        raise Untranslatable("string_agg")
    typed = _plain(argument, block)
    if typed.type.name not in ("text", "varchar", "name"):
        raise Untranslatable(f"string_agg of {typed.type.name}")
    if distinct:
        check_distinct(typed)
    between = block.translate(separator)
    keys = [sort_key(ordered, _plain(ordered.this, block), block) for ordered in order]
    # Rows that tie in the order may come either way, unless they tie in the text itself.
    is_stable = any(key.sql == typed.sql for key in keys)
    by = [key.over(key.sql) for key in keys]
    if not is_stable and not distinct:
        by.append(f"{typed.sql} ASC NULLS LAST")
    elif not keys:
        by = [f"{typed.sql} ASC NULLS LAST"]
    type = replace(TEXT, collation=typed.type.collation if typed.type.collation != Collation.NONE else block.collation)
    literal = between.sql if between.text is None else _quoted(between.text)
    call = f"listagg({distinct}{typed.sql}, {literal}) WITHIN GROUP (ORDER BY {', '.join(by)})"
    return Call((call,), lambda sql: Typed(sql=sql[0], type=type, unstable=not is_stable))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
