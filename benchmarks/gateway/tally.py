"""Many connections of one benchmark: how much has come over all of them, and when."""

import asyncio
import os
import socket

import psycopg


class Tally:
    """The bytes of all connections, and a moment when so many have come."""

    def __init__(self) -> None:
        self.total, self._wanted = 0, float("inf")
        self._reached = asyncio.Event()

    def protocol(self) -> "Counting":
        return Counting(self)

    def add(self, count: int) -> None:
        self.total += count
        if self.total >= self._wanted:
            self._reached.set()

    def expect(self, count: int) -> None:
        self._wanted = self.total + count
        self._reached.clear()

    async def arrival(self) -> None:
        await self._reached.wait()

    async def quiet(self) -> None:
        """Nothing has come for a while."""
        before = -1
        while before != self.total:
            before = self.total
            await asyncio.sleep(1.0)


class Counting(asyncio.Protocol):
    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def data_received(self, data: bytes) -> None:
        self._tally.add(len(data))


class Clients:
    """Logged in by psycopg; their sockets are read by a tally."""

    def __init__(self, dsn: str, count: int) -> None:
        self._logins = [psycopg.connect(dsn, autocommit=True) for _ in range(count)]
        self._sockets = [socket.socket(fileno=os.dup(one.fileno())) for one in self._logins]
        self._transports: list[asyncio.Transport] = []

    async def counted_by(self, tally: Tally) -> None:
        for one in self._sockets:
            one.setblocking(False)
            transport, _ = await asyncio.get_running_loop().create_connection(tally.protocol, sock=one)
            self._transports.append(transport)

    def send(self, data: bytes) -> None:
        """The same from each."""
        for transport in self._transports:
            transport.write(data)

    def close(self) -> None:
        for one in self._logins:
            one.close()
