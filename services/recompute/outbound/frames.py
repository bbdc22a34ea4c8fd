"""Row-local templates as DataFrames: all of a table's in one projection, those with many tuples by a join with them.

A frame here has the columns of its rows, and `m`, an array with an element for each slot that the row belongs to: the
slot's number `n`, and `r`, the computed outputs; the number alone where none of the slots computes any.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from proto.rows import ResultRow
from services.recompute.core.catalog import PgType
from services.recompute.outbound.tuples import with_columns, with_literals

# More tuples are joined instead of being written into the text.
INLINE_TUPLES = 8
_NOTHING = "CAST(NULL AS ARRAY<STRING>)"


class Condition(Struct, frozen=True):
    """Part of a row-local job: what its rows must satisfy, what is computed of them, and for which tuples."""

    predicate: str
    computed: tuple[str, ...]
    types: tuple[PgType, ...]
    tuples: tuple[ResultRow, ...]
    # The slot of the first tuple; the others follow.
    slot: int

    @property
    def is_wide(self) -> bool:
        return len(self.tuples) > INLINE_TUPLES


def matched(
    rows: DataFrame,
    identity: Sequence[str],
    conditions: Sequence[Condition],
    tuples: Callable[[tuple[PgType, ...], tuple[ResultRow, ...]], DataFrame],
) -> list[DataFrame]:
    """Frames of `identity` and `m`, which together hold each row of each condition's slots."""
    with_outputs = any(condition.computed for condition in conditions)
    inline = [condition for condition in conditions if not condition.is_wide]
    frames = []
    if inline:
        cases = ", ".join(case for condition in inline for case in _cases(condition, with_outputs))
        frame = rows.selectExpr(*identity, f"array_compact(array({cases})) AS m")
        frames.append(frame.where("size(m) > 0"))
    for condition in conditions:
        if condition.is_wide:
            element = _element(f"{condition.slot} + q", with_columns(_array(condition.computed)), with_outputs)
            on = F.expr(with_columns(condition.predicate) or "TRUE")
            joined = rows.join(F.broadcast(tuples(condition.types, condition.tuples)), on)
            frames.append(joined.selectExpr(*identity, f"array({element}) AS m"))
    return frames


def union(frames: Sequence[DataFrame]) -> DataFrame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.union(frame)
    return whole


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
