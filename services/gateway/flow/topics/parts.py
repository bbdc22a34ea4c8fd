"""All parts of the topics door of one gateway: made, run and closed together."""

from structlog.typing import FilteringBoundLogger

from services.gateway.core.http_identity import HttpIdentity
from services.gateway.errors import TopicRefused
from services.gateway.flow.topics.door import Batch, TopicCaller, TopicsDoor, Wanted
from services.gateway.flow.topics.pg_port import RoleFinder, TopicsOnPgPort
from services.gateway.flow.topics.sql import TopicSql
from services.gateway.inbound.http_port.app import Door
from services.gateway.inbound.http_port.login import LoginDoor
from services.gateway.inbound.http_port.topic_sql import TopicSqlDoor
from services.gateway.inbound.http_port.topics import (
    AckBody,
    ConsumeBody,
    TopicsHttp,
    checked_limit,
    checked_offset,
    checked_start,
    grouped,
    named,
)
from services.gateway.outbound.group_offsets import GroupOffsets
from services.gateway.outbound.topic_catalog import TopicCatalog
from services.gateway.outbound.user_topics import UserTopics
from services.gateway.settings import Settings


class TopicsParts:
    def __init__(self, settings: Settings, roles: RoleFinder, log: FilteringBoundLogger) -> None:
        self._catalog = TopicCatalog(settings.postgres)
        self._topics = UserTopics(settings.kafka, settings.redis)
        self._groups = GroupOffsets(settings.redis, settings.kafka, log=log)
        self.door = TopicsDoor(settings.topics, self._catalog, self._topics, self._groups)
        sql = TopicSql(self.door)
        self.pg_port = TopicsOnPgPort(sql, roles)
        self.doors: tuple[Door, ...] = (
            TopicsHttp(_HttpCalls(self.door), settings.topics),
            LoginDoor(settings.gateway.http, settings.topics),
            TopicSqlDoor(sql),
        )

    async def run(self) -> None:
        """Until cancelled."""
        await self._groups.keep()

    async def close(self) -> None:
        await self._topics.close()
        await self._groups.close()
        self._catalog.close()


class _HttpCalls:
    """The door, asked in the words of HTTP."""

    def __init__(self, door: TopicsDoor) -> None:
        self._door = door

    async def consume(self, body: ConsumeBody, wait_s: float, caller: HttpIdentity) -> Batch:
        wanted = Wanted(
            topic=named(body),
            group=grouped(body.group_id),
            start=checked_start(body.start),
            limit=checked_limit(body.limit),
            partition=body.partition_id,
            wait_s=wait_s,
        )
        return await self._door.consume(wanted, _caller(caller))

    async def ack(self, body: AckBody, caller: HttpIdentity) -> tuple[int, int | None]:
        group = grouped(body.group_id)
        if group is None:
            raise TopicRefused("invalid", "an ack needs a group_id")
        upto = checked_offset(body.upto_offset)
        _, acknowledged, committed = await self._door.ack(
            named(body), group, body.partition_id, upto, body.claim_id, _caller(caller)
        )
        return acknowledged, committed

    async def latest(self, name: str, partition: int, caller: HttpIdentity) -> tuple[str, int]:
        topic, following = await self._door.latest(name, partition, _caller(caller))
        return topic.topic_id, following


def _caller(caller: HttpIdentity) -> TopicCaller:
    return TopicCaller(caller.service_role, caller.database_role)
