"""Connections to PostgreSQL for the PG port: dialled and encrypted as the DSN says, with nothing sent on them yet."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

from proto.pgwire.frontend import SSL_REQUEST_PACKET
from services.chassis.settings import BadSetting
from services.gateway.errors import UpstreamUnreachable

CONNECT_S = 10.0
# What libpq does when it is not told.
DEFAULT_SSLMODE = "prefer"
# The value of sslrootcert that stands for all authorities that the operating system trusts.
SYSTEM = "system"


class UpstreamTls(Struct, frozen=True):
    """How the connection to PostgreSQL is encrypted, in libpq's terms."""

    sslmode: str
    sslrootcert: str | None = None

    @property
    def asks(self) -> bool:
        return self.sslmode not in ("disable", "allow")

    @property
    def insists(self) -> bool:
        return self.sslmode in ("require", "verify-ca", "verify-full")

    def context(self) -> ssl.SSLContext:
        """A client's own certificate is never shown: PostgreSQL would take the gateway's for the client's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.sslmode == "verify-full"
        verifies = self.sslmode.startswith("verify") or (self.sslmode == "require" and self.sslrootcert is not None)
        context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
        if verifies and self.sslrootcert == SYSTEM:
            context.load_default_certs()
        elif verifies:
            context.load_verify_locations(self.sslrootcert)
        return context


class UpstreamConnection(Struct, frozen=True):
    """An open connection to PostgreSQL."""

    transport: asyncio.Transport
    # The certificate that PostgreSQL showed; None without TLS.
    certificate: bytes | None
    # Done when PostgreSQL hangs up, as long as nobody else has taken the connection over.
    left: asyncio.Future[None]


class _SslAnswer(asyncio.Protocol):
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


class Upstream(Struct, frozen=True):
    """Where PostgreSQL answers; a host that begins with a slash is the folder of its socket."""

    host: str
    port: int
    tls: UpstreamTls
    # The name in PostgreSQL's certificate, where it is reached by another address.
    name: str = ""

    @property
    def by_socket(self) -> bool:
        """Over a socket PostgreSQL may take the gateway's own user for the client (peer)."""
        return self.host.startswith("/")

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[UpstreamConnection]:
        """A connection that nothing but SSLRequest has been said on; closed at the end of the block."""
        try:
            async with asyncio.timeout(CONNECT_S):
                connection = await self._connect()
        except TimeoutError:
            raise UpstreamUnreachable(f"PostgreSQL does not answer within {CONNECT_S:.0f} s") from None
        except ssl.SSLCertVerificationError as error:
            raise UpstreamUnreachable("PostgreSQL cannot be trusted (certificate verify failed)", str(error)) from error
        except (OSError, ssl.SSLError) as error:
            raise UpstreamUnreachable("PostgreSQL does not answer", f"PostgreSQL does not answer ({error})") from error
        try:
            yield connection
        finally:
            connection.transport.close()

    async def _connect(self) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        if self.by_socket:
            transport, answer = await loop.create_unix_connection(_SslAnswer, f"{self.host}/.s.PGSQL.{self.port}")
            return UpstreamConnection(transport, None, answer.left)
        transport, answer = await loop.create_connection(_SslAnswer, self.host, self.port)
        if not self.tls.asks:
            return UpstreamConnection(transport, None, answer.left)
        transport.write(SSL_REQUEST_PACKET)
        byte = await answer.byte
        if byte == b"S":
            secured = await loop.start_tls(
                transport, answer, self.tls.context(), server_hostname=self.name or self.host
            )
            assert secured is not None
            shown = secured.get_extra_info("ssl_object").getpeercert(binary_form=True)
            return UpstreamConnection(secured, shown, answer.left)
        if byte != b"N" or self.tls.insists:
            transport.close()
            raise UpstreamUnreachable(
                f"PostgreSQL does not take TLS, which sslmode={self.tls.sslmode} of the gateway's DSN asks for"
            )
        return UpstreamConnection(transport, None, answer.left)


def upstream_tls_of(dsn: str) -> UpstreamTls:
    """As libpq does: who verifies must say by which authority, and all of the system's need the name to be right."""
    parts = conninfo_to_dict(dsn)
    root, mode = str(parts.get("sslrootcert") or "") or None, str(parts.get("sslmode") or DEFAULT_SSLMODE)
    if mode.startswith("verify") and root is None:
        raise BadSetting(f"sslmode={mode} needs an authority: give sslrootcert in TIDEWIRE_POSTGRES_DSN")
    if root == SYSTEM and mode != "verify-full":
        raise BadSetting(f"sslrootcert=system needs sslmode=verify-full, not {mode}: mend TIDEWIRE_POSTGRES_DSN")
    return UpstreamTls(mode, root)


def upstream_of(dsn: str) -> Upstream:
    parts = conninfo_to_dict(dsn)
    name = str(parts.get("host") or "127.0.0.1").split(",")[0]
    host = str(parts.get("hostaddr") or name).split(",")[0]
    port = str(parts.get("port") or 5432).split(",")[0]
    return Upstream(host, int(port), upstream_tls_of(dsn), name)
