"""What a query's answer depends on besides the rows of its tables."""

import re
from collections.abc import Iterable

from msgspec import Struct

from services.chassis.effects import Dependence, Function, dependence

# SQLValueFunctionOp: CURRENT_DATE, then CURRENT_TIME, CURRENT_TIMESTAMP, LOCALTIME and LOCALTIMESTAMP, two of each.
_CLOCK_VALUES = frozenset(range(9))
# Literals that PostgreSQL reads as a moment relative to its own: 'today', 'tomorrow 12:00'.
_CLOCK_LITERAL = re.compile(r"'\s*(?:now|today|tomorrow|yesterday)(?:\s[^']*)?'(?!')", re.IGNORECASE)


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
