"""Subscriptions, cursors and pause flags: `cursors` keeps them, Redis serves them, on every gateway alike.

A change is first on the topic and then in Redis, and is answered when both have it. Redis may be lost, or come back
with less than it had: its epoch key and its run id tell, and then it is filled from the topic before anything is
answered. A cursor never falls and is never made up.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Literal, TypeAlias, TypeVar, cast

import orjson
import redis
import redis.asyncio
from msgspec import Struct
from structlog.typing import FilteringBoundLogger

from proto.tidewire.v1.cursors_pb2 import CdcCursor, CdcSubscription, CursorRecord, PreparedQuery
from services.chassis.kafka import Kafka
from services.chassis.redis import Redis, RedisRefused, RedisUnreachable, connect
from services.gateway.core.cdc.subscription import Subscription, from_record, to_record
from services.gateway.core.cdc.window import Cursor
from services.gateway.errors import CursorsUnavailable
from services.gateway.outbound.cursor_log import CursorLog, Folded, Written

NO_REDIS = "the CDC door keeps its cursors in Redis: set TIDEWIRE_REDIS_URL"
REBUILDING = "cursors are being read back: try again"
TROUBLES = (redis.RedisError, OSError, RedisUnreachable, RedisRefused)
# Subscriptions of which Redis is asked together.
AT_ONCE = 1_000
# And that are laid into it together, while nobody else is served.
PUT_AT_ONCE = 200
_MISSING = "TWREBUILD"
_LOAD = f"""
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.error_reply('{_MISSING}') end
return redis.call('HGETALL', KEYS[2])
"""
_QUERY = f"""
if redis.call('EXISTS', KEYS[1]) == 0 then return redis.error_reply('{_MISSING}') end
return redis.call('GET', KEYS[2])
"""
# The next version of the pause flag, known to nobody else.
_NEXT_VERSION = """
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
return redis.call('HINCRBY', KEYS[1], 'n', 1)
"""
# The greatest counts of each: acked (a) with its history (h), flag (p) by its version (v). `o` is the place on the
# topic of the last record of this cursor, `oa`, `ov` what that record says: compaction keeps that one alone.
_MERGE = """
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local function held(name) return tonumber(redis.call('HGET', KEYS[1], name) or '-1') end
local acked, history, paused, version, offset = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if tonumber(acked) > held('a') then redis.call('HSET', KEYS[1], 'a', acked) end
if tonumber(history) > held('h') then redis.call('HSET', KEYS[1], 'h', history) end
if tonumber(version) > held('v') then redis.call('HSET', KEYS[1], 'p', paused, 'v', version) end
if tonumber(version) > held('n') then redis.call('HSET', KEYS[1], 'n', version) end
if tonumber(offset) > held('o') then redis.call('HSET', KEYS[1], 'o', offset, 'oa', acked, 'ov', version) end
return redis.call('HMGET', KEYS[1], 'a', 'h', 'p', 'v', 'oa', 'ov')
"""
_FORGET = """
local owned = redis.call('HGET', KEYS[3], ARGV[1])
if owned then redis.call('SREM', owned, ARGV[1]) end
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('DEL', KEYS[1])
return redis.call('SREM', KEYS[2], ARGV[1])
"""

T = TypeVar("T")

Kind: TypeAlias = Literal["subs", "queries"]


class Kept(Struct, frozen=True):
    """A subscription with where it stands."""

    subscription: Subscription
    cursor: Cursor
    flag_version: int = 0


class Prepared(Struct, frozen=True, kw_only=True):
    """A prepared query, and whose it is."""

    query_id: str
    principal: str
    database_role: str
    sql: str


class Cursors:
    """All methods raise CursorsUnavailable when Redis or Kafka does not answer, or Redis must be filled first."""

    def __init__(self, section: Redis | None, kafka: Kafka, *, log: FilteringBoundLogger) -> None:
        self._section, self._log = section, log
        self._topic = CursorLog(kafka)
        base = f"tidewire:{kafka.topic_prefix}cdc"
        self._epoch, self._ids, self._queries = f"{base}:epoch:2", f"{base}:subs", f"{base}:queries"
        self._sub, self._query = f"{base}:sub:", f"{base}:query:"
        # Sets of what each owner has; and by subscription and query, in which of them it is.
        self._owned, self._owners = f"{base}:owned:", f"{base}:owners"
        self._redis: redis.asyncio.Redis | None = None
        # The server that is known to hold all that is on the topic.
        self._filled: str | None = None

    async def keep(self) -> None:
        """Fill Redis at the start, and whenever it is not the one that was filled; until cancelled."""
        while self._section is not None:
            try:
                await self._look()
            except (*TROUBLES, CursorsUnavailable) as error:
                self._filled = None
                self._log.warning("cursors_not_served", reason=str(error))
            await asyncio.sleep(1.0 if self._filled is not None else 0.3)

    @property
    def trouble(self) -> str | None:
        """Why nothing can be answered now."""
        if self._section is None:
            return NO_REDIS
        return None if self._filled is not None else REBUILDING

    async def create(self, subscription: Subscription) -> None:
        client = self._client()
        record = to_record(subscription)
        cursor = CdcCursor(sub_id=subscription.sub_id, history=subscription.history, acked_seq=subscription.start)
        written = await self._topic.append(
            (_key("s", subscription.sub_id), CursorRecord(cdc_subscription=record)),
            (_key("c", subscription.sub_id), CursorRecord(cdc_cursor=cursor)),
        )
        pipeline = client.pipeline(transaction=True)
        self._put(pipeline, record, cursor, written)
        await self._asked(pipeline.execute())

    async def get(self, sub_id: str) -> Kept | None:
        held = await self._asked(self._client().eval(_LOAD, 2, self._epoch, self._sub + sub_id))
        pairs = dict(zip(held[::2], held[1::2], strict=True)) if held else {}
        return _kept(pairs)

    async def standing(self, sub_ids: Sequence[str]) -> list[Cursor | None]:
        """Where these stand, in their order; None for those that are closed."""
        client = self._client()
        pipeline = client.pipeline(transaction=False)
        pipeline.exists(self._epoch)
        for sub_id in sub_ids:
            pipeline.hmget(self._sub + sub_id, ["a", "h", "p"])
        epoch, *found = await self._asked(pipeline.execute())
        if not epoch:
            raise CursorsUnavailable(REBUILDING)
        return [
            None if acked is None else Cursor(acked=int(acked), history=int(history or 0), paused=paused == b"1")
            for acked, history, paused in found
        ]

    async def ack(self, sub_id: str, kept: Kept, acked: int, history: int) -> Cursor | None:
        """The cursor afterwards; None if the subscription was closed meanwhile."""
        cursor = kept.cursor
        if acked <= cursor.acked and history <= cursor.history:
            return cursor
        wanted = Written(
            acked=max(acked, cursor.acked),
            history=max(history, cursor.history),
            paused=cursor.paused,
            version=kept.flag_version,
        )
        return await self._write(sub_id, wanted)

    async def set_paused(self, sub_id: str, kept: Kept, paused: bool) -> Cursor | None:
        """The cursor afterwards; None if the subscription was closed meanwhile."""
        if kept.cursor.paused == paused:
            return kept.cursor
        version = int(await self._asked(self._client().eval(_NEXT_VERSION, 1, self._sub + sub_id)))
        if version < 0:
            return None
        cursor = kept.cursor
        return await self._write(
            sub_id, Written(acked=cursor.acked, history=cursor.history, paused=paused, version=version)
        )

    async def close_subscription(self, sub_id: str) -> None:
        client = self._client()
        await self._topic.append((_key("s", sub_id), None), (_key("c", sub_id), None))
        await self._asked(_forget(client, self._sub + sub_id, self._ids, self._owners, sub_id))

    async def every(self) -> list[tuple[bool, Cursor]]:
        """Of all subscriptions, whether each is one of a query, and where it stands; no more is loaded of them."""
        client, found = self._client(), list[tuple[bool, Cursor]]()
        ids = sorted(await self._asked(client.smembers(self._ids)))
        for place in range(0, len(ids), AT_ONCE):
            pipeline = client.pipeline(transaction=False)
            for sub_id in ids[place : place + AT_ONCE]:
                pipeline.hmget(self._sub + sub_id.decode(), ["q", "a", "h", "p"])
            for is_query, acked, history, paused in await self._asked(pipeline.execute()):
                if acked is not None:
                    cursor = Cursor(acked=int(acked), history=int(history or 0), paused=paused == b"1")
                    found.append((is_query == b"1", cursor))
        return found

    async def listed(self, most: int) -> list[Kept]:
        """The subscriptions themselves, at most so many of them."""
        client, found = self._client(), list[Kept]()
        ids = sorted(await self._asked(client.smembers(self._ids)))[:most]
        for place in range(0, len(ids), AT_ONCE):
            pipeline = client.pipeline(transaction=False)
            for sub_id in ids[place : place + AT_ONCE]:
                pipeline.hgetall(self._sub + sub_id.decode())
            found += [kept for held in await self._asked(pipeline.execute()) if (kept := _kept(held)) is not None]
            await asyncio.sleep(0)
        return found

    async def count(self) -> int:
        """Of all subscriptions."""
        return int(await self._asked(self._client().scard(self._ids)))

    async def count_owned(self, kind: Kind, name: str, database_role: str | None) -> int:
        """How many subscriptions or prepared queries this owner has."""
        return int(await self._asked(self._client().scard(self._owned_by(kind, name, database_role or ""))))

    async def prepare(self, query: Prepared) -> None:
        client = self._client()
        record = PreparedQuery(
            query_id=query.query_id, principal=query.principal, database_role=query.database_role, sql=query.sql
        )
        await self._topic.append((_key("q", query.query_id), CursorRecord(prepared_query=record)))
        pipeline = client.pipeline(transaction=True)
        self._put_query(pipeline, record)
        await self._asked(pipeline.execute())

    async def prepared(self, query_id: str) -> Prepared | None:
        held = await self._asked(self._client().eval(_QUERY, 2, self._epoch, self._query + query_id))
        if held is None:
            return None
        record = PreparedQuery.FromString(held)
        return Prepared(
            query_id=record.query_id,
            principal=record.principal,
            database_role=record.database_role,
            sql=record.sql,
        )

    async def drop_query(self, query_id: str) -> None:
        client = self._client()
        await self._topic.append((_key("q", query_id), None))
        await self._asked(_forget(client, self._query + query_id, self._queries, self._owners, query_id))

    async def close(self) -> None:
        await self._topic.close()
        if self._redis is not None:
            await self._redis.aclose()

    async def _write(self, sub_id: str, wanted: Written) -> Cursor | None:
        """On the topic, then in Redis; again until the topic's last record says no less than Redis does."""
        client = self._client()
        while True:
            record = CdcCursor(
                sub_id=sub_id,
                history=wanted.history,
                acked_seq=wanted.acked,
                paused=wanted.paused,
                flag_version=wanted.version,
            )
            offset = await self._topic.append((_key("c", sub_id), CursorRecord(cdc_cursor=record)))
            arguments = (wanted.acked, wanted.history, int(wanted.paused), wanted.version, offset)
            merged = await self._asked(client.eval(_MERGE, 1, self._sub + sub_id, *map(str, arguments)))
            if merged is None:
                await self._topic.append((_key("c", sub_id), None))
                return None
            acked, history, paused, version, told_acked, told_version = map(int, merged)
            if told_acked >= acked and told_version >= version:
                return Cursor(acked=acked, history=history, paused=bool(paused))
            # Another gateway wrote at the same time, and what it wrote stands before ours.
            wanted = Written(acked=acked, history=history, paused=bool(paused), version=version)

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
        server = await _run_id(self._redis)
        if server == self._filled and await self._redis.exists(self._epoch):
            return
        self._filled = None
        await self._fill(self._redis, server)
        self._filled = server
        self._log.info("cursors_served")

    async def _fill(self, client: redis.asyncio.Redis, server: str) -> None:
        # First which there are in Redis, then the topic: each of them was on the topic by then, or was closed.
        subs, queries = await client.smembers(self._ids), await client.smembers(self._queries)  # type: ignore[misc]
        folded = await self._topic.fold()
        for sub_id in {each.decode() for each in subs} - folded.subscriptions.keys():
            await _forget(client, self._sub + sub_id, self._ids, self._owners, sub_id)
        for query_id in {each.decode() for each in queries} - folded.queries.keys():
            await _forget(client, self._query + query_id, self._queries, self._owners, query_id)
        for some in _batched(folded.queries.values(), PUT_AT_ONCE):
            pipeline = client.pipeline(transaction=True)
            for query in some:
                self._put_query(pipeline, query)
            await pipeline.execute()
        await self._fill_subscriptions(client, folded)
        await client.set(self._epoch, server)

    async def _fill_subscriptions(self, client: redis.asyncio.Redis, folded: Folded) -> None:
        for some in _batched(folded.subscriptions.items(), PUT_AT_ONCE):
            pipeline = client.pipeline(transaction=True)
            for sub_id, record in some:
                cursor, offset = folded.cursors.get(
                    sub_id, (CdcCursor(sub_id=sub_id, history=record.history, acked_seq=record.start_seq), -1)
                )
                self._put(pipeline, record, cursor, offset)
            await pipeline.execute()

    def _put(self, pipeline: Any, record: CdcSubscription, cursor: CdcCursor, offset: int) -> None:
        """Lay it beside what Redis may have: the greatest of each counts."""
        key, owned = self._sub + record.sub_id, self._owned_by("subs", record.principal, record.database_role)
        pipeline.hset(key, mapping={"s": record.SerializeToString(), "q": str(int(record.HasField("query")))})
        arguments = (cursor.acked_seq, cursor.history, int(cursor.paused), cursor.flag_version, offset)
        pipeline.eval(_MERGE, 1, key, *map(str, arguments))
        pipeline.sadd(self._ids, record.sub_id)
        self._note_owner(pipeline, owned, record.sub_id)

    def _put_query(self, pipeline: Any, record: PreparedQuery) -> None:
        pipeline.set(self._query + record.query_id, record.SerializeToString())
        pipeline.sadd(self._queries, record.query_id)
        self._note_owner(pipeline, self._owned_by("queries", record.principal, record.database_role), record.query_id)

    def _note_owner(self, pipeline: Any, owned: str, member: str) -> None:
        pipeline.sadd(owned, member)
        pipeline.hset(self._owners, member, owned)

    def _owned_by(self, kind: Kind, name: str, database_role: str) -> str:
        return f"{self._owned}{kind}:{sha256(orjson.dumps([name, database_role])).hexdigest()[:32]}"


async def _forget(client: redis.asyncio.Redis, key: str, ids: str, owners: str, member: str) -> None:
    await client.eval(_FORGET, 3, key, ids, owners, member)  # type: ignore[misc]


def _batched(every: Iterable[T], most: int) -> Iterator[list[T]]:
    rest = iter(every)
    while some := list(islice(rest, most)):
        yield some


async def _run_id(client: redis.asyncio.Redis) -> str:
    return str(cast(Mapping[str, Any], await client.info("server"))["run_id"])


def _kept(pairs: Mapping[bytes, bytes]) -> Kept | None:
    if b"s" not in pairs or b"a" not in pairs:
        return None
    cursor = Cursor(acked=int(pairs[b"a"]), history=int(pairs.get(b"h", b"0")), paused=pairs.get(b"p", b"0") == b"1")
    return Kept(from_record(CdcSubscription.FromString(pairs[b"s"])), cursor, int(pairs.get(b"v", b"0")))


def _key(kind: str, name: str) -> bytes:
    return f"{kind}/{name}".encode()
