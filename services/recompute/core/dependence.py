"""What a query's answer depends on besides the rows of its tables."""

import re
from collections.abc import Iterable

from msgspec import Struct

from services.sqlguard.effects import Dependence, Function, dependence

# SQLValueFunctionOp: CURRENT_DATE, then CURRENT_TIME, CURRENT_TIMESTAMP, LOCALTIME and LOCALTIMESTAMP, two of each.
_CLOCK_VALUES = frozenset(range(9))
# Literals that PostgreSQL reads as a moment relative to its own: 'today', 'tomorrow 12:00'.
_CLOCK_LITERAL = re.compile(r"'\s*(?:now|today|tomorrow|yesterday)(?:\s[^']*)?'(?!')", re.IGNORECASE)


# What PostgreSQL may read as a moment of its own clock while it reads the text, however it is written: in the tree it
# is a constant like any other. Escapes and literals in several lines may spell it too.
_MAY_BE_MOMENT = re.compile(
    r"(?<![a-z])(?:now|today|tomorrow|yesterday)(?![a-z]|\s*\()|\\|u&'|'\s*\n\s*'", re.IGNORECASE
)


def may_hold_moments(sql: str) -> bool:
    """Whether a constant of the tree may be the moment at which the text was read."""
    return _MAY_BE_MOMENT.search(sql) is not None


class Depends(Struct, frozen=True):
    reads_clock: bool
    # Names of functions; empty if there is none of the kind.
    unsteady: str
    unlogged: str
    # Functions that did not come with PostgreSQL.
    strangers: frozenset[str]


def depends(sql: str, functions: Iterable[Function], value_functions: frozenset[int]) -> Depends:
    found = list(functions)
    named: dict[Dependence, str] = {}
    for function in found:
        named.setdefault(dependence(function), f"{function.name}()")
    return Depends(
        reads_clock=Dependence.CLOCK in named
        or bool(value_functions & _CLOCK_VALUES)
        or _CLOCK_LITERAL.search(sql) is not None,
        unsteady=named.get(Dependence.UNSTEADY, ""),
        unlogged=named.get(Dependence.UNLOGGED, ""),
        strangers=frozenset(function.name for function in found if function.is_foreign),
    )
