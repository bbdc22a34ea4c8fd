"""What PostgreSQL knows of registered queries: their rows, the door's settings, and the shapes of types."""

from collections.abc import Iterable

import psycopg
from msgspec import Struct

from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.recompute.core.notify.json_values import TEXT, TypeShape, scalar
from services.recompute.core.notify.registration import Registration, read_registration

APPLICATION_NAME = "tidewire recompute"
TROUBLE = (psycopg.Error, PostgresUnreachable, PostgresRefused)
_INSTALLED = "SELECT pg_catalog.to_regprocedure('_tidewire.registered(text)') IS NOT NULL"
_ROWS = "SELECT pg_catalog.to_jsonb(r)::pg_catalog.text FROM _tidewire.registered() r"
_CHANNEL = "SELECT _tidewire.reactive_setting('notify_channel', 'pgr')"
_TYPES = """
WITH RECURSIVE named (oid) AS (
    SELECT pg_catalog.unnest(%s::pg_catalog.oid[])
    UNION
    SELECT other.oid
    FROM named
    JOIN pg_catalog.pg_type t ON t.oid = named.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype AS oid
        UNION ALL SELECT t.typelem
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) other
    WHERE other.oid <> 0
)
SELECT t.oid::pg_catalog.int8, t.typbasetype::pg_catalog.int8,
       CASE WHEN t.typsubscript = 'pg_catalog.array_subscript_handler'::pg_catalog.regproc
            THEN t.typelem ELSE 0 END::pg_catalog.int8,
       e.typdelim::pg_catalog.text,
       ARRAY(SELECT a.attname::pg_catalog.text FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.typrelid
             AND t.typtype = 'c' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum),
       ARRAY(SELECT a.atttypid::pg_catalog.int8 FROM pg_catalog.pg_attribute a WHERE a.attrelid = t.typrelid
             AND t.typtype = 'c' AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum)
FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem WHERE t.oid IN (SELECT oid FROM named)
"""


class Known(Struct, frozen=True):
    channel: str
    registrations: tuple[Registration, ...]


class Registrations:
    """A connection for each question: they are few."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    def known(self) -> Known | None:
        """All that are registered; None while nothing is installed. Raises one of TROUBLE."""
        with connect(self._postgres, application_name=APPLICATION_NAME) as connection:
            if not _value(connection, _INSTALLED):
                return None
            rows = connection.execute(_ROWS).fetchall()
            read = (read_registration(str(text).encode()) for (text,) in rows)
            return Known(str(_value(connection, _CHANNEL)), tuple(one for one in read if one is not None))

    def end(self, query_id: str, gen: int) -> None:
        """Take a registration out whose query can have no result any more, if it is still this one."""
        with connect(self._postgres, application_name=APPLICATION_NAME) as connection:
            connection.execute("SELECT _tidewire.unregister(%s, %s)", [query_id, gen])

    def shapes(self, oids: Iterable[int]) -> list[TypeShape]:
        """The shapes of these types, one for each."""
        wanted = list(oids)
        with connect(self._postgres, application_name=APPLICATION_NAME) as connection:
            return shapes_of(connection, wanted)


def shapes_of(connection: psycopg.Connection, oids: list[int]) -> list[TypeShape]:
    rows = connection.execute(_TYPES, [oids]).fetchall()
    facts = {row[0]: _Facts(*row[1:]) for row in rows}
    return [_shape(oid, facts) for oid in oids]


class _Facts(Struct, frozen=True):
    base: int
    element: int
    delimiter: str | None
    names: list[str]
    types: list[int]


def _shape(oid: int, facts: dict[int, _Facts]) -> TypeShape:
    known = facts.get(oid)
    plain = scalar(oid)
    if known is None or plain.form == "vector":
        return plain if known is not None else TEXT
    if known.base:
        return _shape(known.base, facts)
    if known.element:
        return TypeShape("array", _shape(known.element, facts), known.delimiter or ",")
    if known.names:
        attributes = zip(known.names, known.types, strict=True)
        return TypeShape("composite", attributes=tuple((name, _shape(of, facts)) for name, of in attributes))
    return plain


def _value(connection: psycopg.Connection, query: str) -> object:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
