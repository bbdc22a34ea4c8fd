"""A client's first messages, before it is known what it wants: encryption, a cancellation, or a session."""

import asyncio

from msgspec import Struct

from proto.pgwire.errors import MalformedMessage
from proto.pgwire.frontend import CancelRequest, EncryptionRequest, Startup, decode_opening, opening_length
from services.gateway.inbound.tls import Certificate

LENGTH_BYTES = 4


class TlsOnly(Exception):
    """A client without TLS at a gateway that takes none."""

    sqlstate = "28000"

    def __init__(self) -> None:
        super().__init__("this gateway takes only encrypted connections: connect with sslmode=require")


class Opened(Struct, frozen=True):
    """The message that begins a session or asks for a cancellation, as it came and as it was understood."""

    packet: bytes
    message: Startup | CancelRequest
    transport: asyncio.Transport
    by_tls: bool


class Opening(asyncio.Protocol):
    """Takes bytes in until somebody else takes the connection over."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._more = asyncio.Event()
        self._ended = False

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._more.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._more.set()

    async def opened(
        self, transport: asyncio.Transport, certificate: Certificate | None, *, tls_required: bool
    ) -> Opened | None:
        """The client's opening; None if it left before."""
        by_tls = False
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
                raise TlsOnly
            return Opened(packet, message, transport, by_tls)
        return None

    def handed_over(self) -> bytes:
        """What the client has sent behind its opening; from now on somebody else reads."""
        return bytes(self._buffer)

    @property
    def ended(self) -> bool:
        return self._ended

    async def _secure(self, transport: asyncio.Transport, certificate: Certificate) -> asyncio.Transport:
        transport.write(b"S")
        secured = await asyncio.get_running_loop().start_tls(transport, self, certificate.context(), server_side=True)
        if secured is None:
            raise ConnectionResetError
        return secured

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
        while len(self._buffer) < count and not self._ended:
            self._more.clear()
            await self._more.wait()
        return len(self._buffer) >= count
