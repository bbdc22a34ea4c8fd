"""A table's rows in pages, all of one snapshot of PostgreSQL, read by the reader's own rights."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import psycopg
from msgspec import Struct
from psycopg import pq
from psycopg.sql import SQL, Composable, Identifier

from proto.rows import ResultRow
from services.changelog.snapshot import Snapshot
from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable
from services.gateway.core.cdc.subscription import KeyFilter
from services.gateway.core.cdc.table import Table
from services.gateway.errors import RpcRefused
from services.sqlguard.entrance import Deadlines, Inside, entered
from services.sqlguard.meaning import MEANING
from services.sqlguard.refusal import Refused
from services.sqlguard.runners import Runners, Subscriber

PAGE_ROWS = 500
LOCK_TIMEOUT_MS = 2_000
# As in the log.
_PRINTING = {
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
_SHAPE = """
SELECT a.attname, a.atttypid::int8 FROM pg_catalog.pg_attribute a
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


class Page(Struct, frozen=True):
    """Rows in the order of the key, each with its key; the values in the order of the columns."""

    rows: list[ResultRow]


class Shape(Struct, frozen=True):
    """The columns, with their types as the catalog has them, and the state that the rows are of."""

    columns: tuple[tuple[str, int], ...]
    snapshot: Snapshot


class _Source(Protocol):
    @property
    def snapshot(self) -> Snapshot: ...
    def ask(self, sql: str, values: Sequence[bytes | None], *, columns: int) -> list[ResultRow]: ...


class TablePages:
    """Used by a few threads at a time; errors are RpcRefused."""

    def __init__(self, postgres: Postgres, *, statement_timeout_ms: int) -> None:
        self._postgres = postgres
        self._deadlines = Deadlines(statement_timeout_ms, min(statement_timeout_ms, LOCK_TIMEOUT_MS))
        self._runners = Runners(postgres, application_name="tidewire gateway snapshots")

    def read(
        self,
        table: Table,
        keys: KeyFilter,
        role: str | None,
        after: tuple[str, ...] | None,
        begin: Callable[[Shape], bool],
        take: Callable[[Page], bool],
    ) -> bool:
        """Rows behind the key `after`; `begin` says whether this state will do, `take` whether more is wanted."""
        try:
            with self._source(role) as source:
                with self._runners.service() as service:
                    columns = tuple((name, int(oid)) for name, oid in service.execute(_SHAPE, [table.oid]))
                if not begin(Shape(columns, source.snapshot)):
                    return False
                for page in _pages(source, table, [name for name, _ in columns], keys, after):
                    if not take(page):
                        break
                return True
        except Refused as refusal:
            code = "forbidden" if refusal.sqlstate == "42501" else "invalid_request"
            raise RpcRefused(code, refusal.message) from refusal
        except (PostgresUnreachable, PostgresRefused, psycopg.OperationalError) as error:
            raise RpcRefused("internal", "PostgreSQL does not answer: try again", details={"retry": True}) from error
        except psycopg.Error as error:
            code = "forbidden" if error.sqlstate == "42501" else "conflict"
            raise RpcRefused(code, error.diag.message_primary or str(error)) from error

    def close(self) -> None:
        self._runners.close()

    @contextlib.contextmanager
    def _source(self, role: str | None) -> Iterator[_Source]:
        if role is None:
            with self._runners.service() as connection, connection.transaction(force_rollback=True):
                yield _Own(connection, self._deadlines)
            return
        with (
            self._runners.borrowed(Subscriber(role, role)) as runner,
            entered(runner, role, self._deadlines) as inside,
        ):
            inside.set({**MEANING, **_PRINTING})
            yield _ByRole(inside)


class _ByRole:
    """By the reader's role, inside the entrance."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self.snapshot = inside.snapshot

    def ask(self, sql: str, values: Sequence[bytes | None], *, columns: int) -> list[ResultRow]:
        return self._inside.rows(sql, (), values, columns=columns)


class _Own:
    """By the gateway's own role, for callers of a service role who have none in the database."""

    def __init__(self, connection: psycopg.Connection, deadlines: Deadlines) -> None:
        self._server = connection.pgconn
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for name, value in {**MEANING, **_PRINTING, **deadlines.settings}.items():
            connection.execute("SELECT set_config(%s, %s, true)", [name, value])
        row = connection.execute("SELECT pg_current_snapshot()::text").fetchone()
        assert row is not None
        self.snapshot = Snapshot.parse(row[0])

    def ask(self, sql: str, values: Sequence[bytes | None], *, columns: int) -> list[ResultRow]:
        result = self._server.exec_params(sql.encode(), list(values))
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise psycopg.errors.error_from_result(result)
        return [
            tuple([result.get_value(row, column) for column in range(result.nfields)]) for row in range(result.ntuples)
        ]


def _pages(
    source: _Source, table: Table, columns: list[str], keys: KeyFilter, after: tuple[str, ...] | None
) -> Iterator[Page]:
    """By the key, so that a read that broke off can go on; a table without one is read by place."""
    if not table.key and table.members != frozenset({table.oid}):
        raise RpcRefused("precondition_failed", "a partitioned table needs a primary key for a snapshot")
    key = [column.name for column in table.key]
    places = [columns.index(name) for name in key]
    width = len(columns) + (not key)
    last: list[bytes] | None = None if after is None else [text.encode() for text in after]
    while True:
        sql, values = _query(table, columns, key, keys, last)
        rows = source.ask(sql, values, columns=width)
        if rows:
            yield Page([row[: len(columns)] for row in rows])
        if len(rows) < PAGE_ROWS:
            return
        last = [rows[-1][place] or b"" for place in places] if key else [rows[-1][-1] or b""]


def _query(
    table: Table, columns: list[str], key: list[str], keys: KeyFilter, last: list[bytes] | None
) -> tuple[str, list[bytes | None]]:
    values: list[bytes | None] = []
    conditions: list[Composable] = []

    def given(value: bytes) -> SQL:
        values.append(value)
        return SQL(f"${len(values)}")

    order = SQL(", ").join(map(Identifier, key)) if key else SQL("ctid")
    if last is not None:
        bound = SQL(", ").join([given(value) for value in last])
        place = SQL("({}) > ({})") if key else SQL("{} > {}::pg_catalog.tid")
        conditions.append(place.format(order, bound))
    if keys.exact is not None:
        conditions += [
            SQL("{} = {}").format(Identifier(name), given(text.encode()))
            for name, text in zip(key, keys.exact, strict=True)
        ]
    if keys.lower is not None:
        conditions.append(SQL("{} >= {}").format(Identifier(key[0]), given(keys.lower.encode())))
    if keys.upper is not None:
        conditions.append(SQL("{} <= {}").format(Identifier(key[0]), given(keys.upper.encode())))
    where = SQL(" WHERE {}").format(SQL(" AND ").join(conditions)) if conditions else SQL("")
    shown = [*map(Identifier, columns), *([] if key else [SQL("ctid")])]
    query = SQL("SELECT {} FROM {}.{}{} ORDER BY {} LIMIT {}").format(
        SQL(", ").join(shown),
        Identifier(table.schema),
        Identifier(table.name),
        where,
        order,
        SQL(str(PAGE_ROWS)),
    )
    return query.as_string(), values
