"""The user topics that somebody reads now: each partition on a thread of its own while it is wanted."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import redis.asyncio

from proto.tidewire.v1.user_topics_pb2 import TopicMessage
from services.chassis.kafka import Kafka, KafkaRefused, KafkaUnreachable, OffsetOutOfRange, TopicMissing
from services.chassis.redis import Redis, RedisRefused, RedisUnreachable, connect
from services.gateway.core.topics.claims import Bounds
from services.gateway.errors import CursorsUnavailable
from services.gateway.outbound.user_topic import UserTopicPartition

IDLE_S = 60.0
MOST_PARTITIONS = 500

T = TypeVar("T")


class _Followed:
    def __init__(self, partition: UserTopicPartition) -> None:
        self.partition = partition
        self.lock = asyncio.Lock()
        self.changed = asyncio.Event()
        self.used_s = time.monotonic()
        self.known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task: asyncio.Task[None] | None = None


class UserTopics:
    """Raises CursorsUnavailable where Kafka does not answer."""

    def __init__(self, kafka: Kafka, section: Redis | None) -> None:
        self._kafka, self._section = kafka, section
        self._followed: dict[tuple[str, int], _Followed] = {}
        self._threads = ThreadPoolExecutor(64, thread_name_prefix="topics")
        self._redis: redis.asyncio.Redis | None = None

    async def bounds(self, topic_id: str, partition: int) -> Bounds:
        followed = await self._follow(topic_id, partition)
        earliest = max(followed.partition.earliest, await self._trimmed(topic_id, partition))
        following = followed.partition.next
        return Bounds(min(earliest, following), following)

    async def read(self, topic_id: str, partition: int, first: int, count: int) -> list[TopicMessage]:
        followed = await self._follow(topic_id, partition)
        return await self._run(followed, lambda: followed.partition.read(first, count))

    async def changed(self, topic_id: str, partition: int, seen: int, timeout_s: float) -> None:
        """Return when there is a message at or behind `seen`, or the time is over."""
        followed = await self._follow(topic_id, partition)
        if followed.partition.next > seen:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await followed.changed.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        tasks = [each.task for each in self._followed.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)
        self._threads.shutdown(wait=True, cancel_futures=True)
        for each in self._followed.values():
            each.partition.close()
        if self._redis is not None:
            await self._redis.aclose()

    async def _follow(self, topic_id: str, partition: int) -> _Followed:
        key = (topic_id, partition)
        followed = self._followed.get(key)
        if followed is None:
            if len(self._followed) >= MOST_PARTITIONS:
                raise CursorsUnavailable("too many topics are read at this gateway: try again")
            followed = self._followed[key] = _Followed(UserTopicPartition(self._kafka, topic_id, partition))
            followed.task = asyncio.get_running_loop().create_task(self._keep(key, followed))
        followed.used_s = time.monotonic()
        await asyncio.shield(followed.known)
        return followed

    async def _keep(self, key: tuple[str, int], followed: _Followed) -> None:
        """Read on while somebody wants it."""
        try:
            while time.monotonic() - followed.used_s < IDLE_S:
                came = await self._run(followed, lambda: followed.partition.catch_up(0.05))
                if not followed.known.done():
                    followed.known.set_result(None)
                if came:
                    followed.changed.set()
                    followed.changed = asyncio.Event()
        except CursorsUnavailable as error:
            if not followed.known.done():
                followed.known.set_exception(error)
        finally:
            self._followed.pop(key, None)
            if not followed.known.done():
                followed.known.cancel()
            followed.changed.set()
            await asyncio.shield(self._run(followed, followed.partition.close))

    async def _run(self, followed: _Followed, what: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        async with followed.lock:
            try:
                return await loop.run_in_executor(self._threads, what)
            except (KafkaUnreachable, KafkaRefused) as error:
                raise CursorsUnavailable(str(error)) from error
            except (OffsetOutOfRange, TopicMissing) as error:
                # Trimmed, or made anew, while it was read: nothing that is held here counts any more.
                await loop.run_in_executor(self._threads, followed.partition.close)
                raise CursorsUnavailable("the topic was trimmed while it was read: try again") from error

    async def _trimmed(self, topic_id: str, partition: int) -> int:
        """What retention has said last; 0 if it has said nothing."""
        if self._section is None:
            return 0
        key = f"tidewire:{self._kafka.topic_prefix}topics:earliest:{topic_id}:{partition}"
        try:
            if self._redis is None:
                self._redis = await connect(self._section)
            found = await self._redis.get(key)
        except (redis.RedisError, OSError, RedisUnreachable, RedisRefused) as error:
            raise CursorsUnavailable("Redis does not answer: try again") from error
        return int(found) if found else 0
