"""Prepared queries, read and run by PostgreSQL inside their owner's role."""

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg
from msgspec import Struct

from proto.multiset import EMPTY, shifted
from proto.rows import ResultRow, encode_row
from services.changelog.snapshot import Snapshot
from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable
from services.gateway.core.cdc.literals import PLAIN_NULL, TYPED, TYPED_NULL, text_of
from services.gateway.core.cdc.types import family_of
from services.gateway.core.fair_queue import QueueFull
from services.gateway.errors import RpcRefused
from services.gateway.outbound.fair_threads import FairThreads
from services.gateway.outbound.table_names import search_path
from services.sqlguard.entrance import Deadlines, Inside, entered
from services.sqlguard.meaning import MEANING
from services.sqlguard.parse_tree import FIRST_USER_OID, ParsedColumn
from services.sqlguard.refusal import Refused
from services.sqlguard.runners import Runners, Subscriber
from services.sqlguard.trust import examine

THREADS = 4
# Of one role: what it may have under way, and waiting; more are told to come again.
THREADS_A_ROLE = 2
WAITING_A_ROLE = 1_000
CROWDED = "too many queries of this role are waiting: try again"
LOCK_TIMEOUT_MS = 500
# Values are printed as in the log.
_SETTINGS = {
    **MEANING,
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
_DENIED = "42501"
# In the parser's own words, which speak of the text before them.
_TOO_NESTED = "memory exhausted at or near"
_SEVERED = ("57P01", "57P02", "57P03", "57P05", "08006", "08003")

T = TypeVar("T")


class Result(Struct, frozen=True):
    """Columns and rows, the ETag of both, and what the run could see."""

    columns: tuple[ParsedColumn, ...]
    rows: list[ResultRow]
    etag: str
    snapshot: Snapshot

    @property
    def shown(self) -> dict[str, Any]:
        shows = [TYPED[family_of(column.type_oid)] for column in self.columns]
        return {
            "columns": [column.name for column in self.columns],
            "rows": [
                [TYPED_NULL if value is PLAIN_NULL else show(value) for show, value in zip(shows, row, strict=True)]
                for row in self.rows
            ],
        }


class PreparedRuns:
    """On a few threads, by turns of the roles; errors are RpcRefused."""

    def __init__(self, postgres: Postgres, *, statement_timeout_ms: int, most_rows: int) -> None:
        self._postgres, self._most_rows = postgres, most_rows
        self._deadlines = Deadlines(statement_timeout_ms, min(statement_timeout_ms, LOCK_TIMEOUT_MS))
        self._runners = Runners(postgres, application_name="tidewire gateway queries")
        self._threads = FairThreads(
            "prepared", at_once=THREADS, at_once_a_role=THREADS_A_ROLE, waiting_a_role=WAITING_A_ROLE
        )

    async def relations(self, sql: str, role: str) -> frozenset[int]:
        """What the query reads in the end: views opened, every branch and every CTE, as PostgreSQL itself parses it."""

        def read(inside: Inside) -> frozenset[int]:
            parsed = examine(inside, sql, trusted_owners=self._postgres.trusted_owners)
            return frozenset(oid for oid in parsed.rewritten_relations if oid >= FIRST_USER_OID)

        return await self._inside(role, read)

    async def run(self, sql: str, role: str, args: Sequence[Any]) -> Result:
        texts = [text_of(literal) for literal in args]
        values = [None if text is None else text.encode() for text in texts]

        def read(inside: Inside) -> Result:
            parsed = examine(inside, sql, trusted_owners=self._postgres.trusted_owners)
            if len(values) != len(parsed.parameter_types):
                raise RpcRefused(
                    "invalid_request", f"the query needs {len(parsed.parameter_types)} args, {len(values)} were given"
                )
            rows = inside.rows(sql, parsed.parameter_types, values, columns=len(parsed.columns), most=self._most_rows)
            etag = etag_of(parsed.columns, rows, is_ordered=parsed.is_ordered)
            return Result(parsed.columns, rows, etag, inside.snapshot)

        return await self._inside(role, read)

    def close(self) -> None:
        self._threads.close()
        self._runners.close()

    async def _inside(self, role: str, read: Callable[[Inside], T]) -> T:
        try:
            return await self._threads.run(role, lambda: self._run_inside(role, read))
        except QueueFull:
            raise RpcRefused("internal", CROWDED, details={"retry": True}) from None

    def _run_inside(self, role: str, read: Callable[[Inside], T]) -> T:
        try:
            with (
                self._runners.borrowed(Subscriber(role, role)) as runner,
                entered(runner, role, self._deadlines) as inside,
            ):
                inside.set({**_SETTINGS, "search_path": search_path(inside.service, role)})
                return read(inside)
        except Refused as refusal:
            code = "forbidden" if refusal.sqlstate == _DENIED else "invalid_request"
            raise RpcRefused(code, refusal.message) from refusal
        except (PostgresUnreachable, PostgresRefused) as error:
            raise RpcRefused("internal", "PostgreSQL does not answer: try again", details={"retry": True}) from error
        except psycopg.Error as error:
            raise _refusal(error) from error


def etag_of(columns: Sequence[ParsedColumn], rows: Sequence[ResultRow], *, is_ordered: bool) -> str:
    """Another one exactly if the result is another; the order of the rows counts only with ORDER BY (decision 3)."""
    digest = hashlib.sha256()
    for column in columns:
        digest.update(f"{len(column.name)}:{column.name}:{column.type_oid};".encode())
    if is_ordered:
        for row in rows:
            digest.update(encode_row(row))
    else:
        digest.update(b"%d:" % len(rows) + shifted(EMPTY, ((row, 1) for row in rows)))
    return f'"{digest.hexdigest()[:32]}"'


def _refusal(error: psycopg.Error) -> RpcRefused:
    words = error.diag.message_primary or str(error)
    if words.startswith(_TOO_NESTED):
        return RpcRefused("invalid_request", "sql is nested too deeply for PostgreSQL's parser")
    if error.sqlstate is None or error.sqlstate in _SEVERED:
        return RpcRefused("internal", "PostgreSQL does not answer: try again", details={"retry": True})
    if error.sqlstate == _DENIED:
        return RpcRefused("forbidden", words)
    if error.sqlstate in ("57014", "55P03"):
        return RpcRefused("timeout", words)
    return RpcRefused("invalid_request", words, details={"sqlstate": error.sqlstate})
