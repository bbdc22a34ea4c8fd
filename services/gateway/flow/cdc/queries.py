"""Prepared queries: made, dropped, run; what they depend on, and the ETags of their results."""

import asyncio
import secrets
import time
from collections import OrderedDict
from typing import Any, Protocol

import orjson
from msgspec import Struct

from services.changelog.snapshot import Snapshot
from services.gateway.core.cdc.subscription import Owner
from services.gateway.errors import RpcRefused
from services.gateway.flow.cdc.log import ChangeLog
from services.gateway.outbound.cursors import Cursors, Prepared
from services.gateway.outbound.prepared_runs import Result

DEPENDENCIES_S = 30.0
MOST_REMEMBERED = 10_000
# A commit is in the log before it is visible: a run that does not see it yet is made again.
LOOKS = 50
LOOK_AGAIN_S = 0.02
COMMITS_LOOKED_AT = 200
LONGEST_SQL = 64 * 1024
# A table, column, schema or function that the query was prepared with is there no longer.
_GONE = ("42P01", "42703", "3F000", "42883")
NO_ROLE = "queries run under a database role, and this caller has none"


class Runs(Protocol):
    async def relations(self, sql: str, role: str) -> frozenset[int]: ...
    async def run(self, sql: str, role: str, args: tuple[Any, ...]) -> Result: ...


class _Known(Struct, frozen=True):
    tables: frozenset[int]
    generation: int
    until_s: float


class Queries:
    def __init__(self, cursors: Cursors, runs: Runs, log: ChangeLog) -> None:
        self._cursors, self._runs, self._log = cursors, runs, log
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._etags: OrderedDict[bytes, tuple[int, asyncio.Task[Result]]] = OrderedDict()

    async def prepare(self, sql: str, owner: Owner) -> tuple[Prepared, Result | None, frozenset[int]]:
        """A query of the caller's own; its result is None if it has parameters."""
        if owner.database_role is None:
            raise RpcRefused("forbidden", NO_ROLE)
        if len(sql.encode()) > LONGEST_SQL or "\0" in sql:
            raise RpcRefused("invalid_request", f"sql has more than {LONGEST_SQL} bytes or holds a NUL")
        tables = await self._runs.relations(sql, owner.database_role)
        try:
            result = await self._runs.run(sql, owner.database_role, ())
        except RpcRefused as refusal:
            if "args" not in refusal.message:
                raise
            result = None
        query = Prepared(
            query_id=f"q_{secrets.token_hex(8)}",
            principal=owner.name,
            database_role=owner.database_role,
            sql=sql,
        )
        await self._cursors.prepare(query)
        return query, result, tables

    async def owned(self, query_id: str, owner: Owner) -> Prepared:
        """The query, if it is this caller's to use; another's is not there."""
        query = await self._cursors.prepared(query_id)
        is_own = query is not None and (query.principal, query.database_role) == (owner.name, owner.database_role)
        if query is None or not (is_own or owner.is_operator):
            raise RpcRefused("not_found", f"query not found: {query_id}")
        return query

    async def drop(self, query_id: str, owner: Owner) -> None:
        await self.owned(query_id, owner)
        await self._cursors.drop_query(query_id)
        self._known.pop(query_id, None)

    async def result(self, query: Prepared, args: tuple[Any, ...]) -> Result:
        """The result of now: it sees every commit that this gateway has read."""
        key = orjson.dumps([query.query_id, args])
        latest, running = self._etags.get(key, (-1, None))
        if running is None or latest != self._log.latest or (running.done() and running.exception() is not None):
            running = asyncio.get_running_loop().create_task(self._run(query, args))
            self._etags[key] = self._log.latest, running
            while len(self._etags) > MOST_REMEMBERED:
                self._etags.popitem(last=False)
        try:
            return await asyncio.shield(running)
        finally:
            if running.done():
                # Its rows need not be held; whoever asks at the same moment shares the run.
                self._etags.pop(key, None)

    async def dependencies(self, query_id: str, generation: int) -> frozenset[int]:
        """Of this generation of the log, whose DDL PostgreSQL shows already."""
        known, now_s = self._known.get(query_id), time.monotonic()
        if known is None or known.generation != generation or known.until_s <= now_s:
            query = await self._cursors.prepared(query_id)
            if query is None:
                raise RpcRefused("not_found", f"query not found: {query_id}")
            try:
                tables = await self._runs.relations(query.sql, query.database_role)
            except RpcRefused as refusal:
                if refusal.details.get("sqlstate") in _GONE:
                    raise RpcRefused("not_found", refusal.message, details=refusal.details) from refusal
                raise
            known = self._known[query_id] = _Known(tables, generation, now_s + DEPENDENCIES_S)
            while len(self._known) > MOST_REMEMBERED:
                self._known.popitem(last=False)
        return known.tables

    async def etag(self, query_id: str, args: tuple[object, ...]) -> str | None:
        """None where the query cannot be run any more: its readers are told that it may have changed all the same."""
        query = await self._cursors.prepared(query_id)
        if query is None:
            return None
        try:
            return (await self.result(query, args)).etag
        except RpcRefused:
            return None

    async def _run(self, query: Prepared, args: tuple[Any, ...]) -> Result:
        for _ in range(LOOKS):
            commits = list(self._log.commits)[-COMMITS_LOOKED_AT:]
            result = await self._runs.run(query.sql, query.database_role, args)
            if _sees_all(result.snapshot, [commit.xid for commit in commits]):
                return result
            await asyncio.sleep(LOOK_AGAIN_S)
        raise RpcRefused("timeout", "a commit that is in the log is not visible yet: try again")


def _sees_all(snapshot: Snapshot, xids: list[int]) -> bool:
    return all(snapshot.sees(xid) for xid in xids)  # type: ignore[arg-type]
