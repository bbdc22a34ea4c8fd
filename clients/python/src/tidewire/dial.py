"""A connection to the gateway: TCP or a Unix socket, TLS, log-in."""

import asyncio
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, replace

from tidewire import ordinary, tls
from tidewire.address import Address
from tidewire.errors import ConnectionFailed, LogInRefused, ServerError
from tidewire.frames import Framer
from tidewire.login import log_in

CHUNK_BYTES = 64 * 1024
CLOSE_S = 2.0
# A peer that vanished without a word is noticed after about a minute of silence.
KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


@dataclass(slots=True, eq=False)
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    settings: dict[str, str]
    # What came after the log-in in the same read.
    rest: bytes = b""

    async def read(self) -> bytes:
        """Some bytes; an end is a `ConnectionFailed`."""
        if self.rest:
            data, self.rest = self.rest, b""
            return data
        try:
            data = await self.reader.read(CHUNK_BYTES)
        except OSError as error:
            raise ConnectionFailed(f"the connection broke: {error}") from error
        if not data:
            raise ConnectionFailed("the server closed the connection")
        return data

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def close(self) -> None:
        """Say good-bye, if there is still somebody, and hang up."""
        self.writer.write(ordinary.TERMINATION)
        self.writer.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.writer.wait_closed()
        except OSError:  # gone already, or (TimeoutError is one too) it does not take our last word
            self.writer.transport.abort()


async def dial(address: Address) -> Connection:
    """Connect and log in at the first host that answers."""
    failure: ConnectionFailed | None = None
    for host, port in address.hosts:
        try:
            async with asyncio.timeout(address.connect_timeout_s):
                return await _dial_one(address, host, port)
        except TimeoutError:
            failure = ConnectionFailed(f"{host}:{port} does not answer within {address.connect_timeout_s:g} s")
        except ssl.SSLCertVerificationError as error:
            failure = LogInRefused(
                f"{host}:{port} shows a certificate that is not trusted ({error.verify_message}): see sslrootcert"
            )
            failure.__cause__ = error
        except OSError as error:
            failure = ConnectionFailed(f"{host}:{port} cannot be reached: {error.strerror or error}")
            failure.__cause__ = error
        except ConnectionFailed as error:
            failure = error
        if not failure.retry:
            raise failure
    assert failure is not None
    raise failure


async def _dial_one(address: Address, host: str, port: int) -> Connection:
    if address.sslmode != "allow":
        return await _open(address, host, port)
    try:
        return await _open(replace(address, sslmode="disable"), host, port)
    except LogInRefused as refused:
        if isinstance(refused.__cause__, ServerError) and refused.__cause__.sqlstate.startswith("28"):
            return await _open(replace(address, sslmode="require"), host, port)
        raise


async def _open(address: Address, host: str, port: int) -> Connection:
    if host.startswith("/"):
        reader, writer = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await _logged_in(address, reader, writer)
    sock = await _connected(host, port)
    try:
        context = await _agreed(address, sock, host, port)
        reader, writer = await asyncio.open_connection(
            sock=sock, ssl=context, server_hostname=host if context is not None else None
        )
    except BaseException:
        sock.close()
        raise
    return await _logged_in(address, reader, writer)


async def _connected(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for family, kind, protocol, _, place in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, place)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, number in KEEPALIVE.items():
                if hasattr(socket, name):
                    sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), number)
            return sock
    raise failure or OSError(f"{host} has no address")


async def _agreed(address: Address, sock: socket.socket, host: str, port: int) -> ssl.SSLContext | None:
    """Whether there will be TLS. The answer is read as one byte from the socket itself: what somebody in the middle
    might have put behind it goes into the handshake, and fails there."""
    if address.sslmode == "disable":
        return None
    context = tls.context(address)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, ordinary.SSL_REQUEST)
    answer = await loop.sock_recv(sock, 1)
    if answer == b"S":
        return context
    if answer == b"":
        raise ConnectionFailed(f"{host}:{port} closed the connection when asked for TLS")
    if address.sslmode == "prefer" and answer == b"N":
        return None
    raise LogInRefused(
        f"sslmode={address.sslmode}, but {host}:{port} does not offer TLS: give the gateway a certificate, "
        "or use sslmode=prefer in a network that you trust"
    )


async def _logged_in(address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Connection:
    framer, connection = Framer(), Connection(reader, writer, {})
    secured = writer.get_extra_info("ssl_object")
    steps = log_in(address, secured)
    try:
        connection.write(next(steps))
        while True:
            framer.feed(await connection.read())
            while (found := framer.take()) is not None:
                connection.write(steps.send(found))
    except StopIteration as done:
        connection.settings, connection.rest = done.value.settings, framer.rest()
        return connection
    except BaseException:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
        raise
