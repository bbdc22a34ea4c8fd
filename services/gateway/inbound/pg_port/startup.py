"""A client's first messages: a request for encryption, for a cancellation, or for a session."""

import asyncio

from msgspec import Struct

from proto.pgwire.errors import MalformedMessage
from proto.pgwire.frontend import (
    STARTUP_LIMIT_BYTES,
    CancelRequest,
    EncryptionRequest,
    Startup,
    decode_opening,
    opening_length,
)
from services.gateway.inbound.certificate import Certificate

LENGTH_BYTES = 4


class TlsRequired(Exception):
    """A client without TLS at a gateway that takes none."""

    sqlstate = "28000"

    def __init__(self) -> None:
        super().__init__("this gateway takes only encrypted connections: connect with sslmode=require")


class ClientStartup(Struct, frozen=True):
    """The message that begins a session or asks for a cancellation, as it came and as it was understood."""

    packet: bytes
    message: Startup | CancelRequest
    transport: asyncio.Transport
    by_tls: bool


class StartupReader(asyncio.Protocol):
    """Reads bytes until a session takes the connection over; reads no more than a startup packet may have."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        # Where the bytes come from; None before that is known, and while TLS is agreed on.
        self._source: asyncio.Transport | None = None
        self._paused = False
        self._more = asyncio.Event()
        self._client_left = False

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._more.set()
        self._bound()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client_left = True
        self._more.set()

    async def startup(
        self, transport: asyncio.Transport, certificate: Certificate | None, *, tls_required: bool
    ) -> ClientStartup | None:
        """The client's startup packet; None if it left before."""
        by_tls = False
        self._read_from(transport)
        while (packet := await self._packet()) is not None:
            message = decode_opening(packet)
            if isinstance(message, EncryptionRequest):
                if self._buffer:
                    # Somebody in between could have put plain bytes in front of what the client will say in secret.
                    raise MalformedMessage("unencrypted bytes follow the request for encryption")
                if by_tls or not message.by_tls or certificate is None:
                    transport.write(b"N")
                    continue
                transport = await self._secure(transport, certificate)
                by_tls = True
                continue
            if tls_required and not by_tls and isinstance(message, Startup):
                raise TlsRequired
            return ClientStartup(packet, message, transport, by_tls)
        return None

    def take_rest(self) -> bytes:
        """What the client has sent behind its startup packet; from now on somebody else reads."""
        if self._paused and self._source is not None and not self._source.is_closing():
            self._source.resume_reading()
        return bytes(self._buffer)

    @property
    def client_left(self) -> bool:
        return self._client_left

    async def _secure(self, transport: asyncio.Transport, certificate: Certificate) -> asyncio.Transport:
        transport.write(b"S")
        self._source = None
        secured = await asyncio.get_running_loop().start_tls(transport, self, certificate.context(), server_side=True)
        if secured is None:
            raise ConnectionResetError
        self._read_from(secured)
        return secured

    def _read_from(self, transport: asyncio.Transport) -> None:
        self._source = transport
        self._bound()

    def _bound(self) -> None:
        """PostgreSQL may take long to be reached: nobody, known or not, fills our memory meanwhile."""
        if len(self._buffer) > STARTUP_LIMIT_BYTES and self._source is not None and not self._paused:
            self._paused = True
            self._source.pause_reading()

    async def _packet(self) -> bytes | None:
        if not await self._have(LENGTH_BYTES):
            return None
        length = opening_length(bytes(self._buffer[:LENGTH_BYTES]))
        if not await self._have(length):
            return None
        packet = bytes(self._buffer[:length])
        del self._buffer[:length]
        return packet

    async def _have(self, count: int) -> bool:
        while len(self._buffer) < count and not self._client_left:
            self._more.clear()
            await self._more.wait()
        return len(self._buffer) >= count
