"""gen as a boundary between audiences on the whole stack: rows that are really computed, under load (P28)."""

import asyncio

import pytest

from tests.fixtures.notify_race import TENANTS, Race

pytestmark = pytest.mark.slow
SOCKETS, FETCHING = 8, 2
# As long as a registration stands at most, before the next one.
STANDS_S = 4.0


async def load(race, table):
    """Rows that come and go while the race is on."""
    connection = await race.connected()
    number = 0
    while not race.is_over:
        number += 1
        await connection.execute(f"INSERT INTO {table} VALUES ({number})")
        await connection.execute(f"DELETE FROM {table} WHERE id = {number - 5}")
        await asyncio.sleep(0.02)
    await connection.close()


async def fetch(race, door, results):
    """Whole results, for one tenant or the other, with what was registered before and behind each."""
    while not race.is_over:
        tenant, before = race.dice.choice(TENANTS), race.ended
        try:
            answer = await asyncio.to_thread(door.result, race.query_id, tenant=tenant)
        except OSError:
            continue  # the gateway is away
        if answer.status == 200:
            results.append((tenant, before, race.begun, answer.body))
        else:
            assert answer.status in (404, 503), answer


async def raced(door, *, count, kills):
    table = door.name("raced")
    door.sql(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    race, results = Race(door.stack.dsn, door.port, table), []
    query = f"SELECT id, '{{word}}' AS word FROM {table}"
    connection = await race.connected()
    async with asyncio.TaskGroup() as group:
        await race.register(connection, query)
        group.create_task(load(race, table))
        for _ in range(SOCKETS):
            group.create_task(race.come_and_go())
        for _ in range(FETCHING):
            group.create_task(fetch(race, door, results))
        for number in range(1, count):
            await asyncio.sleep(race.dice.choice((0.0, 0.1, 0.5, STANDS_S)))
            await race.register(connection, query)
            if number % (count // (kills + 1)) == 0:
                door.stack.kill("gateway")
                door.stack.start("gateway")
                await asyncio.to_thread(door.stack.wait_ready, "gateway", 120.0)
        await asyncio.sleep(STANDS_S)
        race.is_over = True
    await connection.close()
    door.sql(f"SELECT pgr.unsubscribe('{race.query_id}')")
    check_results(race, results)
    return race, results


def check_results(race, results):
    """A whole result is that of the gen which stood when it was asked for, and of a query for this tenant."""
    for tenant, ended_before, begun_before, body in results:
        made = race.by_gen[body["gen"]]
        assert made.tenant == tenant, (made, tenant)
        assert ended_before <= made.number <= begun_before, (made, ended_before, begun_before)
        assert {row["word"] for row in body["rows"]} <= {made.word}, (made, body)


async def test_p28_another_query_and_audience_forty_times_under_load(door):
    """P23, P27, P28: no socket and no fetch has a row of a gen that it was not let in to; a killed gateway included."""
    race, results = await raced(door, count=40, kills=1)
    assert race.check() >= 5
    assert race.ended_as_stale() >= 5
    assert len(results) >= 5


@pytest.mark.chaos
async def test_p28_another_query_and_audience_five_hundred_times_under_load(door):
    """P28: the same at length."""
    race, results = await raced(door, count=500, kills=8)
    assert race.check() >= 100
    assert race.ended_as_stale() >= 100
    assert len(results) >= 100
