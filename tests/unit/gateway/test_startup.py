"""What a client may send before PostgreSQL has been reached is bounded (on uvloop, as the gateway runs)."""

import asyncio
import ssl
import struct

import pytest
import uvloop

from services.gateway.inbound.certificate import Certificate
from services.gateway.inbound.pg_port.startup import StartupReader
from tests.integration.chassis.certificates import Authority

FIELDS = b"user\0alice\0\0"
STARTUP = struct.pack("!ii", len(FIELDS) + 8, 196608) + FIELDS
CANCEL = struct.pack("!iiii", 16, 80877102, 1, 2)
SSL_REQUEST = struct.pack("!ii", 8, 80877103)
# More than the buffers of a socket's two sides hold.
FLOOD = bytes(64 * 1024 * 1024)
# What one read may bring, at most a few times.
HELD_BYTES = 2 * 1024 * 1024
WITHIN_S = 20.0


class Rest(asyncio.Protocol):
    """Who takes the connection over."""

    def __init__(self):
        self.size, self.left = 0, asyncio.get_running_loop().create_future()

    def data_received(self, data):
        self.size += len(data)

    def eof_received(self):
        self._end()

    def connection_lost(self, exc):
        self._end()

    def _end(self):
        if not self.left.done():
            self.left.set_result(None)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    identity = Authority(tmp_path_factory.mktemp("authority"), "authority").issue("gateway")
    return Certificate(str(identity.certificate), str(identity.key))


@pytest.mark.parametrize("packet", [STARTUP, CANCEL], ids=["startup", "cancel"])
@pytest.mark.parametrize("by_tls", [False, True], ids=["plain", "tls"])
def test_a_flood_behind_the_startup_packet_waits_outside_and_then_arrives_whole(packet, by_tls, certificate):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        held, arrived = runner.run(flooded(packet, certificate if by_tls else None))
    assert held < HELD_BYTES
    assert arrived == len(FLOOD)


async def flooded(packet, certificate):
    """How much was held while nobody had taken over, and how much came in all."""
    loop = asyncio.get_running_loop()
    accepted = loop.create_future()

    class Accepted(StartupReader):
        def connection_made(self, transport):
            accepted.set_result((transport, self))

    server = await loop.create_server(Accepted, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(WITHIN_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        transport, reader_of_startup = await accepted
        opened = asyncio.create_task(reader_of_startup.startup(transport, certificate, tls_required=False))
        if certificate is not None:
            writer.write(SSL_REQUEST)
            assert await reader.readexactly(1) == b"S"
            trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
            await writer.start_tls(trusting)
        writer.write(packet + FLOOD)
        taken = await opened
        await stalled(writer.transport)
        rest = Rest()
        held = reader_of_startup.take_rest()
        rest.size = len(held)
        taken.transport.set_protocol(rest)
        await writer.drain()
        writer.close()
        await rest.left
    server.close()
    return len(held), rest.size


async def stalled(transport):
    """Until nothing of what the client has to send leaves any more."""
    before, alike = -1, 0
    while alike < 10:
        await asyncio.sleep(0.02)
        size = transport.get_write_buffer_size()
        alike, before = (alike + 1, size) if size == before else (0, size)
