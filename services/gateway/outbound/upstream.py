"""The way to PostgreSQL: a connection, encrypted as the operator says, before a client's first message goes there."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

from proto.pgwire.frontend import SSL_REQUEST_PACKET
from services.gateway.inbound.tls import Leg, leg_of

CONNECT_S = 10.0


class ServerUnreachable(Exception):
    """PostgreSQL does not answer, or not by TLS."""

    sqlstate = "08006"


class Reached(Struct, frozen=True):
    """An open way to PostgreSQL."""

    transport: asyncio.Transport
    # The certificate that PostgreSQL showed; None without TLS.
    certificate: bytes | None
    # Done when PostgreSQL hangs up, as long as nobody else has taken the connection over.
    left: asyncio.Future[None]


class _Answer(asyncio.Protocol):
    """PostgreSQL's one byte to SSLRequest."""

    def __init__(self) -> None:
        self.byte: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        if not self.byte.done():
            self.byte.set_result(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.byte.done():
            self.byte.set_result(b"")
        if not self.left.done():
            self.left.set_result(None)


class Server(Struct, frozen=True):
    """Where PostgreSQL answers; a host that begins with a slash is the folder of its socket."""

    host: str
    port: int
    leg: Leg
    # The name in PostgreSQL's certificate, where it is reached by another address.
    name: str = ""

    @contextlib.asynccontextmanager
    async def reached(self) -> AsyncIterator[Reached]:
        """A connection that nothing but SSLRequest has been said on; closed at the end of the block."""
        try:
            async with asyncio.timeout(CONNECT_S):
                reached = await self._reach()
        except TimeoutError:
            raise ServerUnreachable(f"PostgreSQL does not answer within {CONNECT_S:.0f} s") from None
        except (OSError, ssl.SSLError) as error:
            raise ServerUnreachable(f"PostgreSQL does not answer ({error})") from error
        try:
            yield reached
        finally:
            reached.transport.close()

    async def _reach(self) -> Reached:
        loop = asyncio.get_running_loop()
        if self.host.startswith("/"):
            transport, answer = await loop.create_unix_connection(_Answer, f"{self.host}/.s.PGSQL.{self.port}")
            return Reached(transport, None, answer.left)
        transport, answer = await loop.create_connection(_Answer, self.host, self.port)
        if not self.leg.asks:
            return Reached(transport, None, answer.left)
        transport.write(SSL_REQUEST_PACKET)
        byte = await answer.byte
        if byte == b"S":
            secured = await loop.start_tls(
                transport, answer, self.leg.context(), server_hostname=self.name or self.host
            )
            assert secured is not None
            shown = secured.get_extra_info("ssl_object").getpeercert(binary_form=True)
            return Reached(secured, shown, answer.left)
        if byte != b"N" or self.leg.insists:
            transport.close()
            raise ServerUnreachable(
                f"PostgreSQL does not take TLS, which sslmode={self.leg.sslmode} of the gateway's DSN asks for"
            )
        return Reached(transport, None, answer.left)


def server_of(dsn: str) -> Server:
    parts = conninfo_to_dict(dsn)
    name = str(parts.get("host") or "127.0.0.1").split(",")[0]
    host = str(parts.get("hostaddr") or name).split(",")[0]
    port = str(parts.get("port") or 5432).split(",")[0]
    return Server(host, int(port), leg_of(dsn), name)
