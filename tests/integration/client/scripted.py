"""A gateway that a test plays by hand: for what a real one does only when it breaks, or not at all yet."""

import asyncio
import contextlib
import struct

from proto.pgwire import live
from proto.pgwire.framing import Framer, encode_frame

READY, AUTHENTICATED = encode_frame(ord("Z"), b"I"), encode_frame(ord("R"), struct.pack("!i", 0))


def parameter(name, value):
    return encode_frame(ord("S"), f"{name}\0{value}\0".encode())


def described(names, table=0):
    fields = (
        f"{name}\0".encode() + struct.pack("!IhIhih", table, number, 25, -1, -1, 0)
        for number, name in enumerate(names, start=1)
    )
    return encode_frame(ord("T"), struct.pack("!h", len(names)) + b"".join(fields))


class Client:
    """One connection of a client, after its start-up."""

    def __init__(self, reader, writer, startup):
        self._reader, self.writer, self.startup = reader, writer, startup
        self._framer = Framer()
        # The table that the described columns are of, the answer to who asks for its primary key, and who asked.
        self.table, self.primary_key, self.queries = 0, None, []

    async def live_message(self):
        """The next live message; what is asked in between is answered with two columns and the primary key."""
        while True:
            for frame in self._framer.frames():
                if frame.type in live.FRONTEND_TYPES:
                    return live.decode_from_client(frame)
                if frame.type == ord("D"):
                    self.send(described(("id", "name"), self.table))
                if frame.type == ord("S"):
                    self.send(READY)
                if frame.type == ord("Q"):
                    self.queries.append(frame.body)
                    if self.primary_key is not None:
                        row = struct.pack("!hi", 1, len(self.primary_key)) + self.primary_key
                        self.send(described(("indkey",)), encode_frame(ord("D"), row))
                    self.send(encode_frame(ord("C"), b"SELECT 0\0") + READY)
            data = await self._reader.read(65536)
            if not data:
                raise EOFError
            self._framer.feed(data)

    def send(self, *messages):
        for message in messages:
            self.writer.write(message if isinstance(message, bytes) else live.encode(message))

    def cut(self):
        self.writer.transport.abort()


class Gateway:
    """Listens; `await next()` is the next client."""

    def __init__(self, port=0):
        self._port = port
        self._clients = asyncio.Queue()
        self._writers = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.dsn = f"postgresql://me@127.0.0.1:{self.port}/app?sslmode=disable"
        return self

    async def __aexit__(self, *_):
        await self.close()

    async def close(self):
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def next(self):
        async with asyncio.timeout(10):
            return await self._clients.get()

    async def _accept(self, reader, writer):
        self._writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            (length,) = struct.unpack("!i", await reader.readexactly(4))
            words = (await reader.readexactly(length - 4))[4:].split(b"\0")
            startup = dict(zip(words[::2], words[1::2], strict=False))
            writer.write(AUTHENTICATED + READY)
            await self._clients.put(Client(reader, writer, startup))
