"""gen as a boundary between audiences, in a real gateway, against a worker that tells every gen at any time (P28, P29).

The test is the worker: it tells deltas of registrations that ended, of the one that stands, and of one that is not
committed yet.
"""

import asyncio

import psycopg
import pytest

from services.capture.outbound import watch
from services.devstack.ports import free_port
from tests.fixtures.gateway import GatewayProcess
from tests.fixtures.http_port import SECRET
from tests.fixtures.notify_race import Race
from tests.fixtures.notify_worker import NotifyWorker

PREFIX = "gen_boundary."
SOCKETS = 12


class Gateways:
    """One gateway at a time on one HTTP port; killed and started anew by the race."""

    def __init__(self, dsn, kafka, directory):
        self._dsn, self._kafka, self._log = dsn, kafka, directory / "gateway.log"
        self.http_port = free_port()
        self.current = self._start()

    def _start(self):
        made = GatewayProcess(
            dsn=self._dsn, kafka=self._kafka, prefix=PREFIX, log=self._log,
            settings={
                "http_port": str(self.http_port),
                "http_jwt_secret": SECRET,
                "http_connections_per_address": "2000",
            },
        )  # fmt: skip
        made.wait_ready()
        return made

    def kill_and_start(self):
        self.current.kill()
        self.current = self._start()


@pytest.fixture
def dsn(postgres_server):
    made = postgres_server.create_database("notify_race")
    with psycopg.connect(made, autocommit=True) as connection:
        watch.install(connection)
    yield made
    postgres_server.drop_database("notify_race")


async def run(race, worker, gateways, count, kills):
    def tell(gen):
        worker.delta(race.query_id, gen, word=race.by_gen[gen].word)

    async def any_gens():
        while not race.is_over:
            tell(race.dice.choice(sorted(race.by_gen)[-3:]))
            await asyncio.sleep(0.002)

    connection = await race.connected()

    async def tell_before_the_commit(gen):
        tell(gen)
        await asyncio.sleep(race.dice.random() * 0.02)

    async with asyncio.TaskGroup() as group:
        await race.register(connection, "SELECT 1 AS id, '{word}' AS word")
        group.create_task(any_gens())
        for _ in range(SOCKETS):
            group.create_task(race.come_and_go())
        for number in range(1, count):
            gen = await race.register(connection, "SELECT 1 AS id, '{word}' AS word", tell_before_the_commit)
            worker.resubscribed(race.query_id, gen)
            await asyncio.sleep(race.dice.random() * 0.3)
            if number % (count // (kills + 1)) == 0:
                await asyncio.to_thread(gateways.kill_and_start)
        race.is_over = True
    await connection.close()


async def raced(dsn, kafka, directory, *, count, kills):
    gateways = Gateways(dsn, kafka.bootstrap, directory)
    try:
        race = Race(dsn, gateways.http_port, "raced")
        await run(race, NotifyWorker(kafka.bootstrap, PREFIX), gateways, count, kills)
        return race
    finally:
        gateways.current.kill()


async def test_p28_p29_no_socket_is_told_a_row_of_another_gen(dsn, kafka, tmp_path):
    """P23, P28, P29: another query and audience 40 times, and the gateway killed between them."""
    race = await raced(dsn, kafka, tmp_path, count=40, kills=1)
    assert race.check() > 20
    assert race.ended_as_stale() > 20


@pytest.mark.chaos
async def test_p28_p29_no_socket_is_told_a_row_of_another_gen_in_five_hundred(dsn, kafka, tmp_path):
    """P28, P29: the same at length."""
    race = await raced(dsn, kafka, tmp_path, count=500, kills=8)
    assert race.check() > 250
    assert race.ended_as_stale() > 250
