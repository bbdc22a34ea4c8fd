"""Row-local templates as DataFrames: all of a table's in one projection, or joined with tuples where those are many.

A frame here has the columns of its rows, and `m`, an array with an element for each slot that the row belongs to: the
slot's number `n`, and `r`, the computed outputs; the number alone where none of the slots computes any.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from proto.rows import ResultRow
from services.recompute.core.catalog import PgType
from services.recompute.core.plan import Narrowing
from services.recompute.outbound.spark.tuples import with_columns, with_literals

# More tuples are joined instead of being written into the text.
INLINE_TUPLES = 8
# What a tuple is called in an expression over all of them.
_TUPLE = "tidewire_tuple"
# And a place among them, and how far to go from there.
_PLACE, _STEP = "tidewire_place", "tidewire_step"
_NOTHING = "CAST(NULL AS ARRAY<STRING>)"


class Condition(Struct, frozen=True):
    """Part of a row-local job: what its rows must satisfy, what is computed of them, and for which tuples."""

    predicate: str
    computed: tuple[str, ...]
    types: tuple[PgType, ...]
    tuples: tuple[ResultRow, ...]
    # The slot of the first tuple; the others follow.
    slot: int
    narrowing: Narrowing | None = None

    @property
    def is_wide(self) -> bool:
        return len(self.tuples) > INLINE_TUPLES

    def looks(self, rows: int) -> int:
        """Pairs of a row and a tuple that are compared one by one where tuples stand in an array."""
        return len(self.tuples) * rows if self.is_wide and self.narrowing is None else 0


def fused(conditions: Sequence[Condition], arrays: Mapping[int, str], *, with_outputs: bool) -> str:
    """The expression of `m`. `arrays` has the name of a variable for the slot of each wide condition: its tuples.

    With a narrowing they are sorted by its side `of_tuple`, which they have as `v`.
    """
    cases = [case for condition in conditions if not condition.is_wide for case in _cases(condition, with_outputs)]
    parts = [f"array_compact(array({', '.join(cases)}))"] if cases else []
    for condition in conditions:
        if condition.is_wide:
            element = _element(f"{condition.slot} + {_TUPLE}.q", _array(condition.computed), with_outputs)
            near = _near(arrays[condition.slot], condition)
            held = f"filter({near}, {_TUPLE} -> {condition.predicate or 'TRUE'})"
            parts.append(with_columns(f"transform({held}, {_TUPLE} -> {element})", _TUPLE))
    return f"{parts[0] if len(parts) == 1 else _concat(parts)} AS m"


def projected(rows: DataFrame, identity: Sequence[str], expression: str) -> DataFrame:
    return rows.selectExpr(*identity, expression).where("size(m) > 0")


def joined(
    rows: DataFrame, identity: Sequence[str], condition: Condition, tuples: DataFrame, *, with_outputs: bool
) -> DataFrame:
    """The frame of a wide condition; `tuples` has its tuples, as tuples.as_table says."""
    element = _element(f"{condition.slot} + q", with_columns(_array(condition.computed)), with_outputs)
    on = F.expr(with_columns(condition.predicate) or "TRUE")
    return rows.join(F.broadcast(tuples), on).selectExpr(*identity, f"array({element}) AS m")


def union(frames: Sequence[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    return whole


def _near(array: str, condition: Condition) -> str:
    """The stretch of the sorted tuples that a row may belong to, found by bisection: looking at each costs far more.

    A row without the value finds all or none, and the predicate drops them.
    """
    if condition.narrowing is None:
        return array
    operator, of_row = condition.narrowing.operator, condition.narrowing.of_row
    steps = ", ".join(str(1 << bit) for bit in reversed(range(len(condition.tuples).bit_length())))

    def count(comparison: str) -> str:
        there = f"get({array}, {_PLACE} + {_STEP} - 1).v {comparison} {of_row}"
        moved = f"CASE WHEN {there} THEN {_PLACE} + {_STEP} ELSE {_PLACE} END"
        return f"aggregate(array({steps}), 0, ({_PLACE}, {_STEP}) -> {moved})"

    match operator:
        case "=":
            return f"slice({array}, {count('<')} + 1, {count('<=')} - {count('<')})"
        case ">" | ">=":
            return f"slice({array}, 1, {count('<' if operator == '>' else '<=')})"
        case _:
            return f"slice({array}, {count('<=' if operator == '<' else '<')} + 1, {len(condition.tuples)})"


def _concat(parts: Sequence[str]) -> str:
    return f"concat({', '.join(parts)})"


def _cases(condition: Condition, with_outputs: bool) -> list[str]:
    cases = []
    for number, values in enumerate(condition.tuples):
        element = _element(str(condition.slot + number), _array(condition.computed), with_outputs)
        text = f"CASE WHEN {condition.predicate or 'TRUE'} THEN {element} END"
        cases.append(with_literals(text, condition.types, values))
    return cases


def _element(slot: str, outputs: str, with_outputs: bool) -> str:
    return f"named_struct('n', {slot}, 'r', {outputs})" if with_outputs else slot


def _array(outputs: tuple[str, ...]) -> str:
    return f"array({', '.join(outputs)})" if outputs else _NOTHING
