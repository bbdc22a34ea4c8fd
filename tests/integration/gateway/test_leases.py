"""Gateways lease delivery partitions in Redis; nothing but load depends on it."""

import time
from uuid import uuid4

import pytest
import structlog
from structlog.testing import capture_logs

from proto.topics import DELIVERIES
from services.chassis.redis import Redis
from services.devstack.ports import free_port
from services.gateway.outbound.leases import Leases

LOG = structlog.get_logger()
WITHIN_S = 20.0


@pytest.fixture
async def lease(redis_server, topic_prefix):
    made = []

    def make(*, url=redis_server.url, gateway_id=None, lease_ms=60_000):
        leases = Leases(
            Redis(url=url),
            gateway_id=gateway_id or uuid4().hex,
            topic_prefix=topic_prefix,
            log=LOG,
            lease_ms=lease_ms,
        )
        made.append(leases)
        return leases

    yield make
    for leases in made:
        await leases.close()


async def test_each_gateway_has_a_partition_of_its_own_until_all_are_taken(lease):
    taken = [await lease().take() for _ in range(DELIVERIES.partitions)]
    assert sorted(taken) == list(range(DELIVERIES.partitions))
    shared = [await lease().take() for _ in range(DELIVERIES.partitions)]
    assert sorted(shared) == list(range(DELIVERIES.partitions)), "those who come later share evenly"


async def test_a_lease_that_is_renewed_is_kept(lease):
    one = lease()
    partition = await one.take()
    assert [await one.renew() for _ in range(3)] == [partition] * 3


async def test_a_lease_that_was_given_back_is_free_at_once(lease):
    leases = [lease() for _ in range(DELIVERIES.partitions)]
    taken = [await one.take() for one in leases]
    await leases[5].close()
    assert await lease().take() == taken[5]


async def test_a_gateway_that_died_leaves_its_partition_when_its_lease_ends(lease):
    """kill -9: nobody gives it back."""
    dead = lease(lease_ms=1000)
    partition = await dead.take()
    others = [await lease().take() for _ in range(DELIVERIES.partitions - 1)]
    assert partition not in others
    deadline = time.monotonic() + WITHIN_S
    while (next_one := await lease(lease_ms=1).take()) != partition:
        assert time.monotonic() < deadline, next_one


async def test_a_lease_that_ended_while_its_holder_slept_is_taken_up_again(lease):
    sleeper = lease(lease_ms=1)
    partition = await sleeper.take()
    others = {await lease().take() for _ in range(DELIVERIES.partitions)}
    assert partition in others
    assert await sleeper.renew() == partition, "a gateway never changes its partition while it lives"


async def test_without_redis_the_partition_comes_from_the_gateway_s_id(lease, topic_prefix):
    gateway_id = "000000ff" + uuid4().hex[8:]
    away = lease(url=f"redis://127.0.0.1:{free_port()}", gateway_id=gateway_id)
    with capture_logs() as logs:
        assert await away.take() == 0xFF % DELIVERIES.partitions
        assert await away.renew() is None
    assert [entry["event"] for entry in logs] == ["lease_not_renewed", "partition_taken"], "said once, not each time"
    none = Leases(None, gateway_id=gateway_id, topic_prefix=topic_prefix, log=LOG)
    with capture_logs() as logs:
        assert await none.take() == 0xFF % DELIVERIES.partitions
    assert logs[0]["reason"] == "no Redis is set: TIDEWIRE_REDIS_URL"


async def test_a_lease_comes_back_with_redis(tmp_path, topic_prefix):
    from tests.fixtures.redis import start_redis

    with start_redis(tmp_path / "redis") as server:
        leases = Leases(Redis(url=server.url), gateway_id=uuid4().hex, topic_prefix=topic_prefix, log=LOG)
        partition = await leases.take()
        server.kill()
        assert await leases.renew() is None
        server.restart()
        assert await leases.renew() == partition
        await leases.close()
