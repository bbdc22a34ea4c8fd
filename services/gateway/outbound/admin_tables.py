"""The tables of the database for operators: how old rows are told, what that costs, how large they are."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from services.chassis.postgres import Postgres, PostgresRefused, PostgresUnreachable, connect
from services.gateway.errors import RpcRefused

REMEMBERED_S = 5.0
MOST_TABLES = 5_000
# Measured on PostgreSQL 18: an UPDATE of a row writes about this much WAL beside the row itself, with an index entry.
_BESIDE_THE_ROW = 170
_IDENTITIES = {"d": "key", "i": "index", "f": "full", "n": "nothing"}
_TABLES = f"""
SELECT c.oid::int8, n.nspname, c.relname, c.relreplident::text, c.relpersistence::text,
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
       pg_table_size(c.oid)::int8, greatest(c.reltuples, 0)::int8,
       CASE WHEN c.reltuples > 0 THEN pg_relation_size(c.oid) / c.reltuples END::float8,
       CASE WHEN c.reltuples > 0 AND c.reltoastrelid <> 0 THEN pg_relation_size(c.reltoastrelid) / c.reltuples
            ELSE 0 END::float8
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema', '_tidewire')
      AND n.nspname NOT LIKE 'pg!_%' ESCAPE '!'
ORDER BY 2, 3 LIMIT {MOST_TABLES}
"""


class AdminTables:
    """Asked on a connection that lives as long as the question; the answer is remembered for some seconds."""

    def __init__(self, postgres: Postgres, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._postgres, self._clock = postgres, clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="admin-tables")
        self._known: tuple[float, list[dict[str, Any]]] = (0.0, [])

    async def every(self) -> list[dict[str, Any]]:
        """By schema and name; raises RpcRefused while PostgreSQL does not answer."""
        until_s, found = self._known
        if until_s <= self._clock():
            found = await asyncio.get_running_loop().run_in_executor(self._thread, self._ask)
            self._known = self._clock() + REMEMBERED_S, found
        return found

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> list[dict[str, Any]]:
        options = "-c search_path=pg_catalog -c statement_timeout=5000 -c lock_timeout=1000"
        try:
            with connect(self._postgres, application_name="tidewire gateway admin", options=options) as connection:
                return [_shown(*row) for row in connection.execute(_TABLES.encode()).fetchall()]
        except (psycopg.Error, PostgresUnreachable, PostgresRefused):
            raise RpcRefused("timeout", "PostgreSQL did not answer: try again", details={"retry": True}) from None


def _shown(
    oid: int,
    schema: str,
    name: str,
    identity: str,
    persistence: str,
    has_key: bool,
    size: int,
    rows: int,
    row_bytes: float | None,
    toast_bytes: float,
) -> dict[str, Any]:
    is_logged = persistence == "p"
    tracked = is_logged and identity != "n" and (has_key or identity != "d")
    return {
        "oid": oid,
        "schema": schema,
        "name": name,
        "identity": _IDENTITIES[identity],
        "has_key": has_key,
        "is_captured": tracked,
        "why_not": None if tracked else "not logged by PostgreSQL" if not is_logged else "its rows have no identity",
        "bytes": size,
        "rows": rows,
        "update_cost": update_cost(identity, row_bytes, toast_bytes),
    }


def update_cost(identity: str, row_bytes: float | None, toast_bytes: float) -> float | None:
    """How many times the WAL of an UPDATE grows because the old row is written too; None where it is not known."""
    if identity != "f":
        return 1.0
    if row_bytes is None:
        return None
    alone = _BESIDE_THE_ROW + row_bytes
    return round((alone + row_bytes + toast_bytes) / alone, 2)
