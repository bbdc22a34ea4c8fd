"""Consume, ack and reset, for every way in: HTTP and SQL."""

import secrets
import time
from collections.abc import Sequence

from msgspec import Struct

from proto.tidewire.v1.user_topics_pb2 import TopicMessage
from services.gateway.core.http_identity import ServiceRole
from services.gateway.core.topics import claims
from services.gateway.core.topics.claims import Bounds, Claim, GroupState
from services.gateway.core.topics.statements import Start
from services.gateway.errors import TopicRefused
from services.gateway.outbound.group_offsets import GroupOffsets, group_name
from services.gateway.outbound.topic_catalog import TopicCatalog, TopicFacts
from services.gateway.outbound.user_topics import UserTopics
from services.gateway.settings import Topics

PRIVILEGED: tuple[ServiceRole, ...] = ("service", "dba", "system")
# How long a waiting consumer may overlook that a neighbour's claim has expired.
LOOK_AGAIN_S = 1.0
NO_CONSUMING = "Topic consumption requires service, dba, or system role"
NO_ACKING = "Topic acknowledgment requires service, dba, or system role"
NO_RESETTING = "RESET CONSUMER GROUP requires DBA or System role"


class TopicCaller(Struct, frozen=True):
    service_role: ServiceRole
    # Whose rights bind a caller that has no service role; None: nobody's.
    database_role: str | None


class Wanted(Struct, frozen=True, kw_only=True):
    topic: str
    group: str | None
    start: Start
    limit: int
    partition: int
    wait_s: float


class Batch(Struct, frozen=True, kw_only=True):
    messages: Sequence[TopicMessage]
    next_offset: int
    has_more: bool
    trimmed: bool = False
    claim_id: str | None = None


class _Taken(Struct, frozen=True):
    claim: Claim | None
    next_offset: int
    has_more: bool
    trimmed: bool


class TopicsDoor:
    """Raises TopicRefused, and CursorsUnavailable where a server does not answer."""

    def __init__(self, settings: Topics, catalog: TopicCatalog, topics: UserTopics, groups: GroupOffsets) -> None:
        self._settings, self._catalog, self._topics, self._groups = settings, catalog, topics, groups

    async def consume(self, wanted: Wanted, caller: TopicCaller) -> Batch:
        deadline_s = time.monotonic() + wanted.wait_s
        topic = await self._admitted(wanted.topic, caller, NO_CONSUMING)
        _refuse_partition(topic, wanted.partition)
        start: Start = wanted.start
        while True:
            bounds = await self._topics.bounds(topic.topic_id, wanted.partition)
            if wanted.group is None:
                start, batch = await self._stateless(topic, wanted, start, bounds)
            else:
                batch = await self._claimed(topic, wanted, wanted.group, bounds)
            left_s = deadline_s - time.monotonic()
            if batch.messages or left_s <= 0:
                return batch
            await self._topics.changed(topic.topic_id, wanted.partition, bounds.next, min(left_s, LOOK_AGAIN_S))

    async def ack(
        self, name: str, group: str, partition: int, upto: int, claim_id: str | None, caller: TopicCaller
    ) -> tuple[TopicFacts, int, int | None]:
        """The topic, what was acknowledged, and the committed offset after it."""
        topic = await self._admitted(name, caller, NO_ACKING)
        _refuse_partition(topic, partition)
        bounds = await self._topics.bounds(topic.topic_id, partition)
        upto = min(upto, max(bounds.next - 1, 0))

        def step(held: GroupState | None, now_ms: int) -> tuple[GroupState | None, int | None]:
            state = _current(held, topic, anchor=bounds.earliest)
            if claim_id is None:
                after = claims.ack_upto(state, upto)
                return after, after.acked
            done = claims.ack_claim(state, claim_id, upto, bounds.earliest)
            return (state, None) if done is None else done

        name = group_name(topic.topic_id, group, partition)
        state, acknowledged = await self._groups.change(self._groups.key_of(name), step)
        if acknowledged is None or state is None:
            raise TopicRefused("invalid", "claim_id is not one of this group, or upto_offset is below its range")
        await self._keep(topic, group, partition, state)
        return topic, acknowledged, state.acked

    async def reset(
        self, name: str, group: str, partition: int | None, to: int, caller: TopicCaller
    ) -> tuple[TopicFacts, list[int]]:
        """The partitions that were reset (decision 27)."""
        if caller.service_role not in ("dba", "system"):
            raise TopicRefused("forbidden", NO_RESETTING)
        topic = await self._admitted(name, caller, NO_RESETTING)
        if partition is not None:
            _refuse_partition(topic, partition)
        partitions = list(range(topic.partitions)) if partition is None else [partition]
        for each in partitions:
            key = self._groups.key_of(group_name(topic.topic_id, group, each))
            state, _ = await self._groups.change(
                key, lambda held, now_ms: (claims.reset(_current(held, topic, anchor=to), to), None)
            )
            assert state is not None
            await self._keep(topic, group, each, state)
        return topic, partitions

    async def latest(self, name: str, partition: int, caller: TopicCaller) -> tuple[TopicFacts, int]:
        """The offset that the next message will have."""
        topic = await self._admitted(name, caller, NO_CONSUMING)
        _refuse_partition(topic, partition)
        return topic, (await self._topics.bounds(topic.topic_id, partition)).next

    async def _admitted(self, name: str, caller: TopicCaller, words: str) -> TopicFacts:
        """K18; where users are let in, only those who may read every table behind the topic."""
        is_privileged = caller.service_role in PRIVILEGED
        if not is_privileged and not (self._settings.allow_user_role_consume and caller.database_role):
            raise TopicRefused("forbidden", words)
        topic = await self._catalog.find(name)
        if topic is None:
            raise TopicRefused("missing", f"Topic '{name}' does not exist")
        if not is_privileged:
            # Without routes nothing tells whose rows are in it.
            role = caller.database_role or ""
            if not topic.sources or not await self._catalog.may_read(role, topic.sources):
                raise TopicRefused("forbidden", words)
        return topic

    async def _stateless(self, topic: TopicFacts, wanted: Wanted, start: Start, bounds: Bounds) -> tuple[Start, Batch]:
        """Nothing is stored; while it waits it goes on from where the end was at first."""
        first = _begin(start, bounds)
        is_trimmed, first = first < bounds.earliest, max(first, bounds.earliest)
        count = min(wanted.limit, bounds.next - first)
        found = await self._topics.read(topic.topic_id, wanted.partition, first, count) if count > 0 else []
        following = found[-1].offset + 1 if found else first
        batch = Batch(
            messages=found, next_offset=following, has_more=bool(found) and following < bounds.next, trimmed=is_trimmed
        )
        return first, batch

    async def _claimed(self, topic: TopicFacts, wanted: Wanted, group: str, bounds: Bounds) -> Batch:
        visible_ms, nonce = int(self._settings.visibility_timeout_secs * 1000), secrets.token_hex(4)

        def step(held: GroupState | None, now_ms: int) -> tuple[GroupState | None, _Taken]:
            state = _current(held, topic, anchor=_begin(wanted.start, bounds))
            is_trimmed = state.next < bounds.earliest
            after, claim = claims.take(
                state, bounds, now_ms=now_ms, limit=wanted.limit, visible_ms=visible_ms, nonce=nonce
            )
            following = claims.free_from(after, bounds, now_ms) if claim is None else claim.last + 1
            return after, _Taken(claim, following, claims.has_more(after, bounds, now_ms), is_trimmed)

        name = group_name(topic.topic_id, group, wanted.partition)
        key = self._groups.key_of(name)
        state, taken = await self._groups.change(key, step)
        if state is not None and not state.is_told:
            # So that a group that has acked nothing still begins where it began.
            await self._groups.keep_told(key, name, state)
        claim = taken.claim
        if claim is None:
            return Batch(messages=(), next_offset=taken.next_offset, has_more=False, trimmed=taken.trimmed)
        found = await self._topics.read(topic.topic_id, wanted.partition, claim.first, claim.last - claim.first + 1)
        if not found or found[0].offset != claim.first:
            raise TopicRefused("unavailable", "the messages could not be read in time: try again")
        following = found[-1].offset + 1
        return Batch(
            messages=found,
            next_offset=following,
            has_more=taken.has_more or following <= claim.last,
            trimmed=taken.trimmed,
            claim_id=claim.claim_id,
        )

    async def _keep(self, topic: TopicFacts, group: str, partition: int, state: GroupState) -> None:
        """On `cursors`, then in PostgreSQL: only then is it answered."""
        name = group_name(topic.topic_id, group, partition)
        told = await self._groups.keep_told(self._groups.key_of(name), name, state)
        version = 0 if told.acked is None else told.acked + 1
        await self._catalog.mirror((topic.topic_id, group, partition, told.acked, told.generation, version))


def _current(held: GroupState | None, topic: TopicFacts, *, anchor: int) -> GroupState:
    """The group's state, unless the topic was cleared since."""
    if held is None or (held.generation >> 32) < topic.cleared_generation:
        return GroupState(generation=topic.cleared_generation << 32, anchor=anchor)
    return held


def _begin(start: Start, bounds: Bounds) -> int:
    if isinstance(start, int):
        return start
    return bounds.next if start == "Latest" else bounds.earliest


def _refuse_partition(topic: TopicFacts, partition: int) -> None:
    if not 0 <= partition < topic.partitions:
        raise TopicRefused("missing", f"Partition {partition} of topic '{topic.name}' does not exist")
