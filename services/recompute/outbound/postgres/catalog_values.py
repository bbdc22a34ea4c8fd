"""Values of parameters: read under the subscriber's settings, printed under those of the log."""

from collections.abc import Iterator, Sequence
from itertools import chain

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import TextSettings
from services.chassis.parsed import set_local
from services.recompute.core.catalog import PgType
from services.recompute.core.refusal import Refused
from services.recompute.inbound.subscriber import texts_of, unreachable, words_of

# The protocol counts parameters in 16 bits.
MOST_PARAMETERS = 30_000
_TEXT = 25
_PRINTING = ", ".join(
    f"pg_catalog.set_config('{name}', '{value}', true)"
    for name, value in PINNED_TEXT_SETTINGS.items()
    if name != "client_encoding"
)


def normalised(
    connection: psycopg.Connection, types: Sequence[PgType], tuples: Sequence[ResultRow], settings: TextSettings
) -> list[ResultRow | Refused]:
    """One answer for each tuple; a bad value spoils its own tuple alone."""
    if not types:
        return list(tuples)
    size = max(1, MOST_PARAMETERS // len(types))
    found: list[ResultRow | Refused] = []
    connection.execute("BEGIN READ ONLY")
    try:
        for start in range(0, len(tuples), size):
            found += _halved(connection, _oids(types), tuples[start : start + size], settings)
    finally:
        if connection.info.transaction_status != pq.TransactionStatus.UNKNOWN:
            connection.execute("ROLLBACK")
    return found


def _halved(
    connection: psycopg.Connection, oids: list[int], tuples: Sequence[ResultRow], settings: TextSettings
) -> Iterator[ResultRow | Refused]:
    """All at once, or if that fails each half for itself."""
    try:
        yield from _printed(connection, oids, tuples, settings)
    except psycopg.Error as error:
        if unreachable(error):
            raise
        connection.execute("ROLLBACK TO SAVEPOINT reading")
        if len(tuples) == 1:
            yield Refused(*words_of(error))
            return
        middle = len(tuples) // 2
        yield from _halved(connection, oids, tuples[:middle], settings)
        yield from _halved(connection, oids, tuples[middle:], settings)


def _printed(
    connection: psycopg.Connection, oids: list[int], tuples: Sequence[ResultRow], settings: TextSettings
) -> list[ResultRow]:
    """Parameters are read when they are bound and rows printed after they are computed: the settings change between."""
    set_local(connection, texts_of(settings))
    connection.execute("SAVEPOINT reading")
    width = len(oids)
    lines = (
        "(" + ", ".join(f"${row * width + place + 1}" for place in range(width)) + ")" for row in range(len(tuples))
    )
    statement = f"SELECT {_PRINTING}, given.* FROM (VALUES {', '.join(lines)}) AS given"
    result = connection.pgconn.exec_params(statement.encode(), list(chain.from_iterable(tuples)), oids * len(tuples))
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise error_from_result(result)
    first = result.nfields - width
    return [
        tuple(result.get_value(row, place) for place in range(first, result.nfields)) for row in range(result.ntuples)
    ]


def _oids(types: Sequence[PgType]) -> list[int]:
    """Names of objects mean something under the subscriber's search path alone: they stay as they are."""
    return [_TEXT if type_.name.startswith("reg") else type_.oid for type_ in types]
