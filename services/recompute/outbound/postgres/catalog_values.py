"""Values of parameters: read under the subscriber's settings, printed under those of the log."""

from collections.abc import Iterator, Sequence
from itertools import chain

import psycopg

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import PgType
from services.recompute.outbound.postgres.subscriber import texts_of, unreachable, words_of
from services.sqlguard.entrance import Inside
from services.sqlguard.refusal import Refused

# The protocol counts parameters in 16 bits.
MOST_PARAMETERS = 30_000
_TEXT = 25
_PRINTING = ", ".join(
    f"pg_catalog.set_config('{name}', '{value}', true)"
    for name, value in PINNED_TEXT_SETTINGS.items()
    if name != "client_encoding"
)


def normalised(
    inside: Inside, types: Sequence[PgType], tuples: Sequence[ResultRow], settings: TextSettings
) -> list[ResultRow | Refused]:
    """One answer for each tuple; an invalid value refuses its own tuple only."""
    size = max(1, MOST_PARAMETERS // len(types))
    found: list[ResultRow | Refused] = []
    for start in range(0, len(tuples), size):
        found += _halved(inside, _oids(types), tuples[start : start + size], settings)
    return found


def _halved(
    inside: Inside, oids: list[int], tuples: Sequence[ResultRow], settings: TextSettings
) -> Iterator[ResultRow | Refused]:
    """All tuples in one statement, or if that fails each half separately."""
    try:
        with inside.attempted():
            printed = _printed(inside, oids, tuples, settings)
        yield from printed
    except psycopg.Error as error:
        if unreachable(error):
            raise
        if len(tuples) == 1:
            yield Refused(*words_of(error))
            return
        middle = len(tuples) // 2
        yield from _halved(inside, oids, tuples[:middle], settings)
        yield from _halved(inside, oids, tuples[middle:], settings)


def _printed(inside: Inside, oids: list[int], tuples: Sequence[ResultRow], settings: TextSettings) -> list[ResultRow]:
    """Parameters are read before the statement runs and printed last: in between it changes the settings itself."""
    inside.set(texts_of(settings))
    width = len(oids)
    lines = (
        "(" + ", ".join(f"${row * width + place + 1}" for place in range(width)) + ")" for row in range(len(tuples))
    )
    statement = f"SELECT given.* FROM (SELECT {_PRINTING} OFFSET 0) AS printing, (VALUES {', '.join(lines)}) AS given"
    return inside.rows(statement, oids * len(tuples), list(chain.from_iterable(tuples)), columns=width)


def _oids(types: Sequence[PgType]) -> list[int]:
    """Names of objects mean something under the subscriber's search path alone: they stay as they are."""
    return [_TEXT if type_.name.startswith("reg") else type_.oid for type_ in types]
