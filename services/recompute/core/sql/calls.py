"""Functions by their oids: what each is in Spark, for the types for which both are proven equal."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec.structs import replace

from services.recompute.core.catalog import PgType
from services.recompute.core.rendering import is_utc
from services.recompute.core.sql import datetimes, numerics, texts
from services.recompute.core.sql.block import Block
from services.recompute.core.sql.casts import cast
from services.recompute.core.sql.operators import calculated
from services.recompute.core.sql.typed import (
    FLOAT8,
    FLOATS,
    INT4,
    INTEGERS,
    NUMERIC,
    TIMESTAMP,
    TIMESTAMPTZ,
    Typed,
    Untranslatable,
    merged_flags,
)
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree import proven
from services.recompute.core.tree.typing import type_of

NAMES = {oid: name for name, oids in proven.FUNCTIONS.items() for oid in oids}
_CASTS = frozenset(
    (
        *("bool", "bpchar", "date", "float4", "float8", "int2", "int4", "int8", "numeric", "text", "timestamp"),
        *("timestamptz", "varchar"),
    )
)
_INTEGER_OIDS = frozenset((20, 21, 23))


class Call:
    """A call: its arguments in Spark, with what PostgreSQL says of them."""

    def __init__(self, node: n.FuncExpr, given: list[Typed], block: Block) -> None:
        self.node, self.given, self.block = node, given, block

    @property
    def type(self) -> PgType:
        return self.block.world.type_of(self.node)

    def known_text(self, at: int, noun: str) -> str:
        found = self.given[at].text
        if found is None:
            raise Untranslatable(f"{noun} that is no constant")
        return found

    def is_from_integer(self, at: int) -> bool:
        """An argument that is an integer cast to what the function takes."""
        node = self.node.args[at]
        return isinstance(node, n.FuncExpr) and len(node.args) == 1 and type_of(node.args[0]) in _INTEGER_OIDS


Form: TypeAlias = Callable[[Call], Typed]


def call(node: n.FuncExpr, given: list[Typed], block: Block) -> Typed:
    name = NAMES[node.funcid]
    made = Call(node, given, block)
    if name in _CASTS:
        return replace(cast(given[0], made.type, block.settings), text=given[0].text if name == "text" else None)
    form = _FORMS.get(name)
    if form is None:
        raise Untranslatable(f"function {node.funcid}")
    return form(made)


def _absolute(made: Call) -> Typed:
    (x,) = made.given
    if x.type.name == "numeric":
        x = numerics.as_decimal(x)
    elif x.type.name not in INTEGERS and x.type.name not in FLOATS:
        raise Untranslatable(f"abs of {x.type.name}")
    return replace(x, sql=f"abs({x.sql})", text=None)


def _sign(made: Call) -> Typed:
    (x,) = made.given
    if x.type.name == "numeric":
        held = numerics.as_decimal(x)
        return Typed(sql=f"CAST(sign({held.sql}) AS DECIMAL(1,0))", type=NUMERIC, digits=(1, 0), **merged_flags(x))
    sql = f"CASE WHEN {x.sql} IS NULL THEN NULL WHEN isnan({x.sql}) OR {x.sql} = 0 THEN 0.0D ELSE sign({x.sql}) END"
    return Typed(sql=sql, type=FLOAT8, **merged_flags(x))


def _rounding(name: str) -> Form:
    def rounded(made: Call) -> Typed:
        x = made.given[0]
        if len(made.given) == 2:
            places = int(made.known_text(1, f"{name} to a number of places"))
            if not -30 <= places <= 30:
                raise Untranslatable(f"{name} to {places} places")
            return numerics.rounded(x, places, truncates=name == "trunc")
        if x.type.name == "numeric":
            return numerics.rounded(x, 0, truncates=name == "trunc")
        if name == "trunc":
            raise Untranslatable("trunc of a float")
        return Typed(sql=f"rint({x.sql})", type=FLOAT8, **merged_flags(x))

    return rounded


def _whole(name: str) -> Form:
    """ceil and floor."""

    def whole(made: Call) -> Typed:
        (x,) = made.given
        if x.type.name == "numeric":
            held = numerics.as_decimal(x)
            assert held.digits
            digits = numerics.fitting(held.digits[0] - held.digits[1] + 1, 0)
            sql = f"CAST({name}({held.sql}) AS {numerics.decimal(digits)})"
            return Typed(sql=sql, type=NUMERIC, digits=digits, **merged_flags(x))
        if not made.is_from_integer(0):
            raise Untranslatable(f"{name} of {x.type.name}")
        return x

    return whole


def _date_trunc(made: Call) -> Typed:
    return datetimes.truncated(made.known_text(0, "date_trunc to a unit"), made.given[1], made.block.settings)


def _extract(made: Call) -> Typed:
    return datetimes.field(made.known_text(0, "extract of a field"), made.given[1], made.block.settings)


def _date_part(made: Call) -> Typed:
    name = made.known_text(0, "date_part of a field")
    if name.lower() in ("epoch", "second"):
        raise Untranslatable("date_part of this field")
    return cast(datetimes.field(name, made.given[1], made.block.settings), FLOAT8)


def _to_char(made: Call) -> Typed:
    return datetimes.written(made.given[0], made.known_text(1, "to_char with a pattern"), made.block.settings)


def _time_zone(made: Call) -> Typed:
    zone, x = made.known_text(0, "AT TIME ZONE of a name"), made.given[1]
    if not is_utc(zone):
        raise Untranslatable("AT TIME ZONE other than UTC")
    return replace(x, type=TIMESTAMPTZ if x.type.name == "timestamp" else TIMESTAMP)


def _octets(made: Call) -> Typed:
    x = texts.text_of(made.given[0])
    return Typed(sql=f"octet_length({x.sql})", type=INT4, **merged_flags(x))


def _same_name(name: str) -> Form:
    """A function of texts and counts that Spark has under the same name, with the same result."""

    def called(made: Call) -> Typed:
        parts = [texts.int_of(one) if one.type.name in INTEGERS else texts.text_of(one) for one in made.given]
        return texts.called(name, *parts)

    return called


def _trimming(where: str) -> Form:
    return lambda made: texts.trimmed(made.given[0], made.given[1] if len(made.given) > 1 else None, where)


def _padding(*, left: bool) -> Form:
    return lambda made: texts.padded(
        made.given[0], made.given[1], made.given[2] if len(made.given) > 2 else None, left=left
    )


_FORMS: dict[str, Form] = {
    "abs": _absolute,
    "sign": _sign,
    "mod": lambda made: calculated("%", made.given[0], made.given[1], made.block),
    "round": _rounding("round"),
    "trunc": _rounding("trunc"),
    "ceil": _whole("ceil"),
    "ceiling": _whole("ceil"),
    "floor": _whole("floor"),
    "date_trunc": _date_trunc,
    "extract": _extract,
    "date_part": _date_part,
    "to_char": _to_char,
    "timezone": _time_zone,
    "now": lambda made: made.block.now(),
    "transaction_timestamp": lambda made: made.block.now(),
    "length": lambda made: texts.length(made.given[0]),
    "char_length": lambda made: texts.length(made.given[0]),
    "character_length": lambda made: texts.length(made.given[0]),
    "octet_length": _octets,
    "lower": lambda made: texts.lowered(made.given[0], made.block),
    "upper": lambda made: texts.lowered(made.given[0], made.block, upper=True),
    "concat": lambda made: texts.concatenated(made.given),
    "concat_ws": lambda made: texts.concatenated_with(made.given[0], made.given[1:]),
    "position": lambda made: texts.position(made.given[0], made.given[1]),
    "strpos": lambda made: texts.position(made.given[0], made.given[1]),
    "starts_with": lambda made: texts.starts_with(made.given[0], made.given[1]),
    "substr": lambda made: texts.substring(*made.given),
    "substring": lambda made: texts.substring(*made.given),
    "left": lambda made: texts.edge(made.given[0], made.given[1], right=False),
    "right": lambda made: texts.edge(made.given[0], made.given[1], right=True),
    "lpad": _padding(left=True),
    "rpad": _padding(left=False),
    "btrim": _trimming("BOTH"),
    "ltrim": _trimming("LEADING"),
    "rtrim": _trimming("TRAILING"),
    "replace": _same_name("replace"),
    "split_part": _same_name("split_part"),
    "repeat": _same_name("repeat"),
    "reverse": _same_name("reverse"),
    "md5": _same_name("md5"),
    "translate": _same_name("translate"),
}
