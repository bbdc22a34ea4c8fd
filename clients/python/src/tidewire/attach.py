"""A live connection beside one of psycopg's, to the same gateway as the same user.

libpq ends a connection on which a message comes that it does not know, so the live messages cannot share psycopg's own.
"""

from typing import TYPE_CHECKING, Any

from tidewire.address import ENVIRONMENT, Address, parse
from tidewire.client import Live
from tidewire.conversation import LSN
from tidewire.retry import Retry
from tidewire.sync import LiveSync

if TYPE_CHECKING:
    from psycopg import AsyncConnection, Connection

# What the session may have changed by SET and the server reports, and what a query's meaning depends on.
SETTINGS = ("TimeZone", "DateStyle", "IntervalStyle", "search_path")


async def attach(
    connection: "Connection[Any] | AsyncConnection[Any]", *, lsn: bool = False, retry: Retry | None = None
) -> Live:
    """Connect to where psycopg's connection leads: `async with await tidewire.attach(connection) as live: …`."""
    return await Live.at(address_of(connection, lsn=lsn), retry or Retry())


def attach_sync(
    connection: "Connection[Any] | AsyncConnection[Any]", *, lsn: bool = False, retry: Retry | None = None
) -> LiveSync:
    """The same, blocking."""
    return LiveSync(address_of(connection, lsn=lsn), retry or Retry())


def address_of(connection: "Connection[Any] | AsyncConnection[Any]", *, lsn: bool) -> Address:
    info = connection.info
    given = {**info.get_parameters(), "host": info.host, "port": str(info.port), "user": info.user}
    given |= {"dbname": info.dbname, "password": info.password}
    known = {name: info.parameter_status(name) for name in SETTINGS}
    settings = {name: text for name, text in known.items() if text}
    pairs = " ".join(f"{name}='{_quoted(text)}'" for name, text in given.items() if text and name in ENVIRONMENT)
    return parse(pairs, {}, {**settings, **({LSN: "on"} if lsn else {})})


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
