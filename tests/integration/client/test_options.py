"""VR3: what the client tells a gateway when it connects, and the key columns that it then need not ask for."""

import asyncio
from uuid import uuid4

import pytest
import tidewire
from tidewire import Initial, Replaced, Updated

from proto.pgwire.live import Ack, Data, Unsubscribe, Update
from tests.integration.client.scripted import Gateway

WITHIN_S = 20.0
ROWS = ((b"1", b"ann"), (b"2", b"bob"))
# Which row it belongs to is certain only for who knows that the first column is the key.
RENAMED = (b"1", b"bob")


@pytest.fixture
async def gateway():
    async with Gateway() as made:
        yield made


async def opened(gateway, live, *, key, primary_key):
    """A subscription whose first result has come, and the client's connection as the gateway has it."""
    client, one = await gateway.next(), uuid4()
    client.table, client.primary_key = 5, primary_key
    people = live.subscribe("SELECT id, name FROM people")
    opening = asyncio.create_task(people.open())
    await client.live_message()
    client.send(Ack(one, 1, key), Data(one, Update.FULL, ROWS))
    reading = asyncio.create_task(client.live_message())
    await opening
    assert isinstance(await anext(people), Initial)
    return people, client, one, reading


async def renamed(people, client, one):
    client.send(Data(one, Update.UPDATE, (RENAMED,)))
    async with asyncio.timeout(WITHIN_S):
        change = await anext(people)
    assert change == Updated((Replaced(("1", "ann"), ("1", "bob")),))
    assert people.rows == (("1", "bob"), ("2", "bob"))


async def test_vr3_the_client_says_which_messages_it_knows_and_asks_for_the_key(gateway):
    async with await tidewire.connect(gateway.dsn):
        client = await gateway.next()
        assert client.startup[b"tidewire.messages"] == b"F2,F3,F4,F7"
        assert client.startup[b"tidewire.key"] == b"on"


async def test_a_key_that_the_gateway_names_is_not_asked_for(gateway):
    async with await tidewire.connect(gateway.dsn) as live:
        people, client, one, reading = await opened(gateway, live, key=(0,), primary_key=b"2")
        await renamed(people, client, one)
        assert client.queries == []
        people.close()
        assert await reading == Unsubscribe(one)


async def test_an_older_gateway_names_no_key_and_postgresql_is_asked(gateway):
    async with await tidewire.connect(gateway.dsn) as live:
        people, client, one, reading = await opened(gateway, live, key=None, primary_key=b"1")
        await renamed(people, client, one)
        assert len(client.queries) == 1 and b"pg_index" in client.queries[0]
        people.close()
        assert await reading == Unsubscribe(one)
