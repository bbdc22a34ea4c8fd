"""`tidewire check`: one commit's way through all services, as a client sees it."""

import asyncio
import secrets
import time

import psycopg
import tidewire
from psycopg import sql
from rich.console import Console


class NoDelta(Exception):
    """The delta of our own commit did not come."""

    retry = True

    def __init__(self, waited_s: float) -> None:
        super().__init__(f"no delta came within {waited_s:.0f} s of the insert: look at /readyz of each service")


def run(dsn: str, *, within_s: float) -> int:
    """Make a table, subscribe to it, insert a row, wait until it comes back, and drop the table."""
    console = Console(highlight=False)
    with psycopg.connect(dsn, autocommit=True, application_name="tidewire check") as connection:
        table = sql.Identifier(f"tidewire_check_{secrets.token_hex(4)}")
        connection.execute(sql.SQL("CREATE TABLE {} (id int PRIMARY KEY, word text)").format(table))
        try:
            took_s = asyncio.run(_round(dsn, connection, table, within_s))
        finally:
            connection.execute(sql.SQL("DROP TABLE {}").format(table))
    console.print(f"a row was inserted and came back as a delta after {took_s * 1000:.0f} ms")
    return 0


async def _round(dsn: str, connection: psycopg.Connection, table: sql.Identifier, within_s: float) -> float:
    word = secrets.token_hex(8)
    try:
        async with (
            asyncio.timeout(within_s),
            await tidewire.connect(dsn, settings={"application_name": "tidewire check"}) as live,
            live.subscribe(f"SELECT id, word FROM {table.as_string(connection)}") as result,
        ):
            await anext(result)
            began_at = time.monotonic()
            insert = sql.SQL("INSERT INTO {} VALUES (1, %s)").format(table)
            await asyncio.to_thread(connection.execute, insert, (word,))
            async for _ in result:
                if ("1", word) in result.rows:
                    return time.monotonic() - began_at
    except TimeoutError:
        raise NoDelta(within_s) from None
    raise NoDelta(within_s)
