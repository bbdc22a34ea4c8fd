"""What PostgreSQL says about tables and about who may read them, asked on a connection of the gateway's own."""

import asyncio
import contextlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import orjson
import psycopg

from services.changelog import barrier
from services.changelog.snapshot import Snapshot
from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.gateway.core.cdc.grounds import Grounds
from services.gateway.core.cdc.keys import KeyColumn
from services.gateway.core.cdc.literals import text_of
from services.gateway.core.cdc.subscription import KeyFilter, Wishes
from services.gateway.core.cdc.table import Table
from services.gateway.core.cdc.types import Family, family_of
from services.gateway.errors import RpcRefused
from services.gateway.outbound import role_grounds
from services.gateway.outbound.asked_together import AskedTogether
from services.gateway.outbound.table_names import find_table

# Values are printed as in the log.
_OPTIONS = (
    "-c search_path=pg_catalog -c statement_timeout=5000 -c lock_timeout=2000 -c DateStyle=ISO -c TimeZone=UTC "
    "-c IntervalStyle=postgres -c bytea_output=hex -c extra_float_digits=1"
)
_TABLES = """
WITH RECURSIVE member(root, oid) AS (
    SELECT c.oid, c.oid FROM pg_class c WHERE c.oid = ANY (%(oids)s)
    UNION
    SELECT m.root, i.inhrelid FROM member m JOIN pg_inherits i ON i.inhparent = m.oid
)
SELECT c.oid, n.nspname, c.relname,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
       (SELECT bool_and(t.relreplident = 'f') FROM member m JOIN pg_class t ON t.oid = m.oid
        WHERE m.root = c.oid AND t.relkind = 'r'),
       ARRAY(SELECT m.oid::int8 FROM member m JOIN pg_class t ON t.oid = m.oid
             WHERE m.root = c.oid AND t.relkind = 'r'),
       ARRAY(SELECT m.oid::int8 FROM member m WHERE m.root = c.oid),
       ARRAY(SELECT m.oid::int8 FROM member m JOIN pg_class t ON t.oid = m.oid
             WHERE m.root = c.oid AND m.oid <> c.oid AND NOT t.relispartition),
       c.relkind = 'p' OR c.relhassubclass,
       n.nspname IN ('pg_catalog', 'information_schema', '_tidewire') OR n.nspname LIKE 'pg!_%%' ESCAPE '!' OR
       EXISTS (SELECT FROM member m JOIN pg_class t ON t.oid = m.oid
               WHERE m.root = c.oid AND t.relkind = 'r' AND (t.relpersistence <> 'p' OR t.relreplident = 'n'))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY (%(oids)s) AND c.relkind IN ('r', 'p')
"""
# Of each column of a primary key, in its order: the type below any domain, and what its collation does.
_KEYS = """
WITH RECURSIVE keyed AS (
    SELECT i.indrelid, k.place, a.attname, a.atttypid, a.attcollation
    FROM pg_index i CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indisprimary AND i.indrelid = ANY (%(oids)s)
), below(indrelid, place, typid) AS (
    SELECT indrelid, place, atttypid FROM keyed
    UNION ALL
    SELECT b.indrelid, b.place, t.typbasetype FROM below b JOIN pg_type t ON t.oid = b.typid WHERE t.typtype = 'd'
)
SELECT k.indrelid, k.attname, t.oid, format_type(t.oid, -1), coalesce(c.collisdeterministic, true),
       CASE WHEN c.oid IS NULL THEN false
            WHEN c.collprovider = 'd' THEN d.datlocprovider = 'b' OR
                (d.datlocprovider = 'c' AND d.datcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8'))
            WHEN c.collprovider = 'c' THEN c.collcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8')
            ELSE c.collprovider = 'b' END
FROM keyed k JOIN below b USING (indrelid, place) JOIN pg_type t ON t.oid = b.typid AND t.typtype <> 'd'
LEFT JOIN pg_collation c ON c.oid = k.attcollation
JOIN pg_database d ON d.datname = current_database()
ORDER BY k.indrelid, k.place
"""
# The columns by which the log has old rows of each table that does not have them whole.
_IDENTITIES = """
SELECT c.oid, ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a
                    ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[])
                    WHERE i.indrelid = c.oid
                      AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END)
FROM pg_class c WHERE c.oid = ANY (%(oids)s) AND c.relreplident <> 'f'
"""
_DOMAINS = """
WITH RECURSIVE below(given, typid) AS (
    SELECT DISTINCT t.oid, t.typbasetype FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = ANY (%(oids)s) AND t.typtype = 'd' AND NOT a.attisdropped
    UNION ALL
    SELECT b.given, t.typbasetype FROM below b JOIN pg_type t ON t.oid = b.typid WHERE t.typtype = 'd'
)
SELECT b.given, b.typid FROM below b JOIN pg_type t ON t.oid = b.typid WHERE t.typtype <> 'd'
"""
_TIMES = (Family.DATE, Family.TIME, Family.TIME_ZONED, Family.MOMENT, Family.MOMENT_ZONED)
_NOT_FIXED = re.compile(r"now|today|tomorrow|yesterday", re.IGNORECASE)
MOST_PRINTED = 10_000
UNREACHABLE = "PostgreSQL does not answer: try again"

T = TypeVar("T")


class CdcCatalog:
    """A connection and a thread for it, and a second one for barriers; errors are RpcRefused."""

    def __init__(self, postgres: Postgres) -> None:
        self._questions, self._barriers = _Asked(postgres, "cdc"), _Asked(postgres, "cdc-barriers")
        # After DDL all streams ask at once.
        self._tables = AskedTogether(self._ask_tables)
        self._readable = AskedTogether(self._ask_readable)
        self._printed: OrderedDict[bytes, KeyFilter] = OrderedDict()

    async def database(self) -> str:
        return await self._questions.ask(lambda connection: connection.info.dbname)

    async def find(self, name: str, role: str | None) -> int | None:
        """The oid of the table that this name means to the role."""
        return await self._questions.ask(lambda connection: find_table(connection, name, role))

    async def tables(self, oids: Iterable[int]) -> dict[int, Table]:
        """Those of them that are tables; views and others are left out."""
        return await self._tables.answer(oids)

    async def readable(self, role: str, oids: Iterable[int]) -> dict[int, Grounds]:
        """Which of these tables the role may have the raw rows of, and what that rests on."""
        found = await self._readable.answer((role, oid) for oid in oids)
        return {oid: grounds for (_, oid), grounds in found.items()}

    async def memberships(self, role: str) -> Grounds:
        """What a service role of this role rests on."""
        return await self._questions.ask(lambda connection: role_grounds.memberships(connection, role))

    async def snapshot(self) -> Snapshot:
        """What whoever asks next sees at least."""

        def ask(connection: psycopg.Connection) -> Snapshot:
            row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
            assert row is not None
            return Snapshot.parse(row[0])

        return await self._questions.ask(ask)

    async def printed(self, table: Table, wishes: Wishes) -> KeyFilter:
        """The literals of the key filters as PostgreSQL prints them in the key's types."""
        if wishes.pk is None and not wishes.has_range:
            return KeyFilter()
        # The same for ever: the types are PostgreSQL's own, and how they print is set.
        key = orjson.dumps([table.key, wishes.pk, wishes.lower_bound, wishes.upper_bound], default=str)
        known = self._printed.get(key)
        if known is None:
            known = await self._questions.ask(lambda connection: _printed(connection, table, wishes))
            self._printed[key] = known
            while len(self._printed) > MOST_PRINTED:
                self._printed.popitem(last=False)
        return known

    async def emit_barrier(self) -> str:
        """A mark in the log behind everything that was committed before the call."""
        return await self._barriers.ask(barrier.emit)

    async def _ask_tables(self, oids: list[int]) -> dict[int, Table]:
        return await self._questions.ask(lambda connection: _tables(connection, sorted(oids)))

    async def _ask_readable(self, pairs: list[tuple[str, int]]) -> dict[tuple[str, int], Grounds]:
        by_role: dict[str, list[int]] = {}
        for role, oid in pairs:
            by_role.setdefault(role, []).append(oid)

        def ask(connection: psycopg.Connection) -> dict[tuple[str, int], Grounds]:
            return {
                (role, oid): grounds
                for role, oids in by_role.items()
                for oid, grounds in role_grounds.readable(connection, role, oids).items()
            }

        return await self._questions.ask(ask)

    def close(self) -> None:
        self._questions.close()
        self._barriers.close()


class _Asked:
    """A connection on a thread of its own, replaced once if it died while it was idle."""

    def __init__(self, postgres: Postgres, name: str) -> None:
        self._postgres, self._name = postgres, name
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._connection: psycopg.Connection | None = None

    async def ask(self, question: Callable[[psycopg.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, question)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
        if self._connection is not None:
            self._connection.close()

    def _ask(self, question: Callable[[psycopg.Connection], T]) -> T:
        with contextlib.suppress(psycopg.OperationalError):
            return question(self._connected())
        self._drop()
        try:
            return question(self._connected())
        except psycopg.OperationalError as error:
            self._drop()
            raise RpcRefused("internal", UNREACHABLE, details={"retry": True}) from error

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = connect(
                    self._postgres, application_name=f"tidewire gateway {self._name}", options=_OPTIONS
                )
            except (PostgresUnreachable, PostgresRefused) as error:
                raise RpcRefused("internal", UNREACHABLE, details={"retry": True}) from error
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _tables(connection: psycopg.Connection, oids: list[int]) -> dict[int, Table]:
    keys: dict[int, list[KeyColumn]] = {}
    for oid, name, type_oid, type_name, is_deterministic, by_bytes in connection.execute(_KEYS, {"oids": oids}):
        column = KeyColumn(
            name=name,
            family=family_of(type_oid),
            type_name=type_name,
            is_ordered_by_bytes=by_bytes and is_deterministic,
            is_equal_by_bytes=is_deterministic,
        )
        keys.setdefault(oid, []).append(column)
    found: dict[int, Table] = {}
    rows = connection.execute(_TABLES, {"oids": oids}).fetchall()
    members = sorted({member for row in rows for member in row[5]})
    bases: dict[int, int] = dict(connection.execute(_DOMAINS, {"oids": [*oids, *members]}).fetchall())
    identities: dict[int, list[str]] = dict(connection.execute(_IDENTITIES, {"oids": members}).fetchall())
    for oid, schema, name, columns, has_old_rows, own_members, family, wider, has_parts, is_silent in rows:
        key = tuple(keys.get(oid, ()))
        found[oid] = Table(
            oid=oid,
            schema=schema,
            name=name,
            columns=frozenset(columns),
            key=key,
            has_old_rows=bool(has_old_rows),
            members=frozenset(own_members),
            family=frozenset(family),
            wider=frozenset(wider),
            has_parts=has_parts,
            has_old_keys=all(
                {column.name for column in key}.issubset(identities[member])
                for member in own_members
                if member in identities
            ),
            is_silent=is_silent,
            base_types=bases,
        )
    return found


def _printed(connection: psycopg.Connection, table: Table, wishes: Wishes) -> KeyFilter:
    exact = None
    if wishes.pk is not None:
        exact = tuple(
            _print(connection, column, literal) for column, literal in zip(table.key, wishes.pk, strict=False)
        )
    lower = upper = None
    if wishes.has_range and table.key:
        column = table.key[0]
        lower = None if wishes.lower_bound is None else _print(connection, column, wishes.lower_bound)
        upper = None if wishes.upper_bound is None else _print(connection, column, wishes.upper_bound)
    return KeyFilter(exact=exact, lower=lower, upper=upper)


def _print(connection: psycopg.Connection, column: KeyColumn, literal: Any) -> str:
    text = text_of(literal)
    if text is None:
        raise RpcRefused("invalid_request", "a primary key is never null")
    if column.family is Family.OTHER:
        return text  # of a type that is not compared; its own functions are not run here
    if column.family in _TIMES and _NOT_FIXED.search(text):
        raise RpcRefused(
            "invalid_request", f"the literal for key column {column.name} must mean the same whenever it is read"
        )
    try:
        # concat() prints by the type's output function; the type is one of PostgreSQL's own.
        row = connection.execute(f"SELECT concat(CAST(%s::text AS {column.type_name}))".encode(), [text]).fetchone()
    except (psycopg.DataError, psycopg.ProgrammingError) as error:
        words = error.diag.message_primary or "it cannot be read"
        raise RpcRefused(
            "invalid_request", f"the literal for key column {column.name} is no {column.type_name}: {words}"
        ) from error
    assert row is not None
    return str(row[0])
