"""Where groups stand: the topic `cursors` keeps it, Redis serves it together with the claims, PostgreSQL mirrors it.

As with the cursors of the CDC door: Redis is filled from the topic before anything is answered, so that a Redis that
was wiped moves no group. Only claims are lost with it: what they held comes again.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import redis
import redis.asyncio
from structlog.typing import FilteringBoundLogger

from proto.tidewire.v1.cursors_pb2 import CursorRecord, GroupOffset, OffsetRange
from services.chassis.kafka import Kafka
from services.chassis.redis import Redis, connect
from services.gateway.core.topics.claims import GroupState
from services.gateway.errors import CursorsUnavailable
from services.gateway.outbound.cursor_log import CursorLog
from services.gateway.outbound.cursors import TROUBLES

NO_REDIS = "durable topics keep their groups' offsets in Redis: set TIDEWIRE_REDIS_URL"
REBUILDING = "the groups' offsets are being read back: try again"
_MISSING = "TWREBUILD"
# The state, and Redis' clock, which all gateways share.
_LOAD = f"""
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.error_reply('{_MISSING}') end
return {{redis.call('GET', KEYS[2]) or '', redis.call('TIME')[1], redis.call('TIME')[2]}}
"""
_SWAP = """
local held = redis.call('GET', KEYS[1]) or ''
if held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
"""
ATTEMPTS = 1_000

T = TypeVar("T")
# What is done with the state (None: the group has none) at a moment of Redis' clock; and what comes of it.
Step = Callable[[GroupState | None, int], tuple[GroupState | None, T]]


class GroupOffsets:
    """All methods raise CursorsUnavailable when Redis or Kafka does not answer, or Redis must be filled first."""

    def __init__(self, section: Redis | None, kafka: Kafka, *, log: FilteringBoundLogger) -> None:
        self._section, self._log = section, log
        self._topic = CursorLog(kafka)
        self._base = f"tidewire:{kafka.topic_prefix}topics"
        self._epoch = f"{self._base}:epoch"
        self._redis: redis.asyncio.Redis | None = None
        self._filled: str | None = None

    async def keep(self) -> None:
        """Fill Redis at the start, and whenever it is not the one that was filled; until cancelled."""
        while self._section is not None:
            try:
                await self._look()
            except (*TROUBLES, CursorsUnavailable) as error:
                self._filled = None
                self._log.warning("group_offsets_not_served", reason=str(error))
            await asyncio.sleep(1.0 if self._filled is not None else 0.3)

    @property
    def trouble(self) -> str | None:
        if self._section is None:
            return NO_REDIS
        return None if self._filled is not None else REBUILDING

    async def change(self, key: str, step: Step[T]) -> tuple[GroupState | None, T]:
        """Do it as if nobody else did anything; the state afterwards, and what came of it. `step` may run again."""
        for _ in range(ATTEMPTS):
            raw, now_ms = await self._load(key)
            before = _decoded(raw)
            after, result = step(before, now_ms)
            if after is None or after == before or await self._swap(key, raw, after):
                return after, result
        raise CursorsUnavailable("too many consumers of this group change it at once: try again")

    async def keep_told(self, key: str, name: str, state: GroupState) -> GroupState:
        """Return when the last record on `cursors` says no less than the state does."""
        while not state.is_told:
            place = await self._topic.append((f"g/{name}".encode(), CursorRecord(group_offset=_record(name, state))))
            told = state.progress

            def note(
                held: GroupState | None, _: int, place: int = place, told: tuple[int, int, int] = told
            ) -> tuple[GroupState | None, None]:
                if held is None or place <= held.told_at:
                    return held, None
                return msgspec.structs.replace(held, told=told, told_at=place), None

            after, _ = await self.change(key, note)
            if after is None:
                raise CursorsUnavailable(REBUILDING)
            state = after
        return state

    def key_of(self, name: str) -> str:
        return f"{self._base}:group:{name}"

    async def close(self) -> None:
        await self._topic.close()
        if self._redis is not None:
            await self._redis.aclose()

    async def _load(self, key: str) -> tuple[bytes, int]:
        raw, seconds, micros = await self._asked(self._client().eval(_LOAD, 2, self._epoch, key))
        return raw, int(seconds) * 1000 + int(micros) // 1000

    async def _swap(self, key: str, before: bytes, after: GroupState) -> bool:
        return bool(await self._asked(self._client().eval(_SWAP, 1, key, before.decode(), _encoded(after))))

    def _client(self) -> redis.asyncio.Redis:
        if self._redis is None or self._filled is None:
            raise CursorsUnavailable(self.trouble or REBUILDING)
        return self._redis

    async def _asked(self, answer: Awaitable[Any] | Any) -> Any:
        try:
            return await answer
        except TROUBLES as error:
            self._filled = None
            if _MISSING in str(error):
                raise CursorsUnavailable(REBUILDING) from None
            raise CursorsUnavailable("Redis does not answer: try again") from error

    async def _look(self) -> None:
        assert self._section is not None
        if self._redis is None:
            self._redis = await connect(self._section)
        server = str((await self._redis.info("server"))["run_id"])
        if server == self._filled and await self._redis.exists(self._epoch):
            return
        self._filled = None
        folded = await self._topic.fold()
        for name, (record, place, last) in folded.groups.items():
            state = msgspec.structs.replace(_state(record), told=_state(last).progress, told_at=place)
            await self._lay(self._redis, self.key_of(name), state)
        await self._redis.set(self._epoch, server)
        self._filled = server
        self._log.info("group_offsets_served", groups=len(folded.groups))

    async def _lay(self, client: redis.asyncio.Redis, key: str, state: GroupState) -> None:
        """Beside what Redis may have: the further one counts."""
        for _ in range(ATTEMPTS):
            raw = await client.get(key) or b""
            held = _decoded(raw)
            if held is not None and held.progress >= state.progress and held.told_at >= state.told_at:
                return
            if held is not None and held.progress >= state.progress:
                state = msgspec.structs.replace(held, told=state.told, told_at=state.told_at)
            if await client.eval(_SWAP, 1, key, raw.decode(), _encoded(state)):  # type: ignore[misc]
                return
        raise CursorsUnavailable(REBUILDING)


def _encoded(state: GroupState) -> str:
    return msgspec.json.encode(state).decode()


def _decoded(raw: bytes) -> GroupState | None:
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(raw, type=GroupState) if raw else None
    raise CursorsUnavailable("Redis holds something else at a group's place")


def group_name(topic_id: str, group: str, partition: int) -> str:
    """Unambiguous: an id has no slash, and the partition is behind the last one."""
    return f"{topic_id}/{group}/{partition}"


def _record(name: str, state: GroupState) -> GroupOffset:
    topic_id, _, rest = name.partition("/")
    group, _, partition = rest.rpartition("/")
    return GroupOffset(
        topic_id=topic_id,
        group_id=group,
        partition=int(partition),
        generation=state.generation,
        last_acked_offset=state.acked,
        anchor_offset=state.anchor,
        retired_beyond=[OffsetRange(first=first, last=last) for first, last in state.retired],
    )


def _state(record: GroupOffset) -> GroupState:
    return GroupState(
        generation=record.generation,
        anchor=record.anchor_offset,
        acked=record.last_acked_offset if record.HasField("last_acked_offset") else None,
        retired=tuple((each.first, each.last) for each in record.retired_beyond),
    )
