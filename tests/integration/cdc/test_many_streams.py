"""A thousand streams on one gateway, and readers that do not read: what they cost."""

import asyncio
import contextlib
import threading

import psutil
import pytest

STREAMS = 1_000
READERS_ASLEEP = 20
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def roomy(cdc):
    """A gateway that takes so many connections; its door."""
    cdc.start_gateway(TIDEWIRE_GATEWAY_HTTP_CONNECTIONS="1200")
    yield len(cdc.doors) - 1
    cdc.gateways[-1].kill()


def resident(cdc, door):
    return psutil.Process(cdc.gateways[door].pid).memory_info().rss


async def opened(service, sub_id):
    """A stream's connection, behind its head."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port, limit=2**20)
    authorization = service.headers["Authorization"]
    head = f"GET /api/v1/cdc/sse/{sub_id} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {authorization}\r\n\r\n"
    writer.write(head.encode())
    answer = await asyncio.wait_for(reader.readuntil(b"retry: 1000\n\n"), 90)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    return reader, writer


async def gone(streams):
    for _, writer in streams:
        writer.close()
    for _, writer in streams:
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_a_thousand_streams_each_have_each_event_in_bounded_memory(cdc, roomy):
    """S35."""
    service, table = cdc.service(door=roomy), cdc.table("id int PRIMARY KEY")
    params = {"db": cdc.database, "table": table, "format": "plain_json"}
    subs = [service.result("cdc.subscribe_table", **params)["sub_id"] for _ in range(10)]
    before = resident(cdc, roomy)
    streams = []
    for _ in range(STREAMS // 50):
        streams += await asyncio.gather(*[opened(service, subs[number % 10]) for number in range(50)])
    try:
        await asyncio.to_thread(cdc.sql, f"INSERT INTO {table} SELECT generate_series(1, 3)")
        texts = await asyncio.gather(*[asyncio.wait_for(reader.readuntil(b'"pk":[3]'), 60) for reader, _ in streams])
        assert [text.count(b"event: insert") for text in texts] == [3] * STREAMS
        grown = resident(cdc, roomy) - before
        assert grown < 200 * MIB, f"{grown / MIB:.0f} MiB for {STREAMS} streams"
    finally:
        await gone(streams)


async def drained(cdc, service, sub, table, first):
    """Write 5,000 rows of 4 kB and read them all by a stream."""
    rows = f"INSERT INTO {table} SELECT i, repeat('x', 4000) FROM generate_series({first}, {first + 4999}) i"
    reader, writer = await opened(service, sub)
    writing = threading.Thread(target=cdc.sql, args=(rows,))
    writing.start()
    while f'"pk":[{first + 4999}]'.encode() not in await asyncio.wait_for(reader.readuntil(b"\n\n"), 90):
        pass
    writing.join()
    await gone([(reader, writer)])
    service.result("cdc.ack", sub_id=sub, offset=service.result("stats.snapshot")["cdc"]["latest_offset"])


async def test_readers_that_do_not_read_cost_a_bounded_buffer(cdc, roomy):
    """Paused or slow: what goes by is not kept for them; the others go on."""
    service, table = cdc.service(door=roomy), cdc.table("id int PRIMARY KEY, note text")
    params = {"db": cdc.database, "table": table, "format": "plain_json", "include": {"after": True}}
    sub, slow, paused = (service.result("cdc.subscribe_table", **params)["sub_id"] for _ in range(3))
    service.result("cdc.pause", sub_id=paused)
    await drained(cdc, service, sub, table, 1)
    before = resident(cdc, roomy)
    asleep = await asyncio.gather(*[opened(service, each) for each in [slow, paused] * (READERS_ASLEEP // 2)])
    try:
        for _, writer in asleep:
            writer.transport.pause_reading()
        await drained(cdc, service, sub, table, 10_001)
        # 20 MB went by each of twenty.
        grown = resident(cdc, roomy) - before
        assert grown < 100 * MIB, f"{grown / MIB:.0f} MiB"
    finally:
        await gone(asleep)
