"""The door itself on real PostgreSQL, Kafka and Redis, without a gateway around it."""

import asyncio
import secrets
from types import SimpleNamespace

import psycopg
import structlog

from proto.topics import CURSORS
from services.capture.outbound import watch
from services.chassis.kafka import Kafka, ensure_topics
from services.chassis.postgres import Postgres
from services.chassis.redis import Redis
from services.gateway.flow.topics.door import TopicCaller, TopicsDoor, Wanted
from services.gateway.outbound.group_offsets import GroupOffsets, group_name
from services.gateway.outbound.topic_catalog import TopicCatalog
from services.gateway.outbound.user_topics import UserTopics
from services.gateway.settings import Topics
from tests.integration.topics.conftest import WrittenTopic

SERVICE = TopicCaller("service", None)


def test_a_group_consumes_acks_and_survives_a_wiped_redis(database, kafka, redis_server) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        watch.install(connection)
        connection.execute("CREATE SCHEMA app")
        section = Kafka(bootstrap=kafka.bootstrap, topic_prefix=f"d{secrets.token_hex(4)}.")
        ensure_topics(section, (CURSORS,))
        stack = SimpleNamespace(
            captured=SimpleNamespace(kafka=section), sql=lambda text, *values: connection.execute(text, values or None)
        )
        topic = WrittenTopic(stack)
        asyncio.run(_used(topic, database, section, Redis(url=redis_server.url)))
        rows = connection.execute("SELECT group_id, last_acked_offset FROM system.topic_offsets").fetchall()
        assert rows == [("g", 2)]


async def _used(topic: WrittenTopic, dsn: str, kafka: Kafka, redis: Redis) -> None:
    catalog, topics = TopicCatalog(Postgres(dsn=dsn)), UserTopics(kafka, redis)
    groups = GroupOffsets(redis, kafka, log=structlog.get_logger())
    door = TopicsDoor(Topics(visibility_timeout_secs=60), catalog, topics, groups)
    keeping = asyncio.create_task(groups.keep())

    async def offsets(start="Earliest", limit=100, group="g", wait_s=0.0) -> list[int]:
        wanted = Wanted(topic=topic.name, group=group, start=start, limit=limit, partition=0, wait_s=wait_s)
        return [message.offset for message in (await door.consume(wanted, SERVICE)).messages]

    try:
        async with asyncio.timeout(60):
            while groups.trouble is not None:
                await asyncio.sleep(0.05)
            topic.write(5, a_transaction=2)
            assert await offsets(limit=3, wait_s=10.0) == [0, 1, 2]
            assert await offsets(group=None) == [0, 1, 2, 3, 4]
            assert (await door.ack(topic.name, "g", 0, 2, None, SERVICE))[1:] == (2, 2)
            assert await offsets() == [3, 4] and await offsets() == []
            await _wiped(groups)
            assert await offsets() == [3, 4]
            waiting = asyncio.create_task(offsets(group="late", start="Latest", wait_s=10.0))
            await _anchored(groups, group_name(topic.name, "late", 0))
            await asyncio.to_thread(topic.write, 1)
            assert await waiting == [5]
    finally:
        keeping.cancel()
        await topics.close()
        await groups.close()
        catalog.close()


async def _anchored(groups: GroupOffsets, name: str) -> None:
    """Return when the group has a place: what is written from then on it gets."""
    while (await groups.change(groups.key_of(name), lambda held, _: (held, None)))[0] is None:
        await asyncio.sleep(0.05)


async def _wiped(groups: GroupOffsets) -> None:
    assert groups._redis is not None
    await groups._redis.delete(*await groups._redis.keys(f"{groups._base}:*"))
    groups._filled = None
    while groups.trouble is not None:
        await asyncio.sleep(0.05)
