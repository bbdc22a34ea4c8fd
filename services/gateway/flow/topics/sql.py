"""CONSUME, ACK and RESET CONSUMER GROUP, carried out by the door; they take no part in any transaction."""

from typing import Any

from services.gateway.core.http_identity import HttpIdentity
from services.gateway.core.topics.answers import clamped, of_sql
from services.gateway.core.topics.statements import Ack, Carried, Consume, Reset
from services.gateway.errors import TopicRefused
from services.gateway.flow.topics.door import TopicCaller, TopicsDoor, Wanted

# Upstream has other words in SQL than over HTTP.
FORBIDDEN: dict[type, str] = {
    Consume: "Only service, dba, or system roles can consume from topics",
    Ack: "Only service, dba, or system roles can acknowledge topic offsets",
}


class TopicSql:
    def __init__(self, door: TopicsDoor) -> None:
        self._door = door

    async def run(self, statement: Carried, caller: HttpIdentity) -> list[list[Any]]:
        """For a caller over HTTP."""
        return await self.rows(statement, TopicCaller(caller.service_role, caller.database_role))

    async def rows(self, statement: Carried, who: TopicCaller) -> list[list[Any]]:
        """Its rows; answered at once, without a long poll."""
        try:
            return await self._rows(statement, who)
        except TopicRefused as refusal:
            if refusal.kind == "forbidden" and type(statement) in FORBIDDEN:
                raise TopicRefused(refusal.kind, FORBIDDEN[type(statement)]) from None
            raise

    async def _rows(self, statement: Carried, who: TopicCaller) -> list[list[Any]]:
        if isinstance(statement, Ack):
            topic, _, committed = await self._door.ack(
                statement.topic, statement.group, statement.partition, statement.upto, None, who
            )
            return [[topic.name, statement.group, statement.partition, committed]]
        if isinstance(statement, Reset):
            topic, partitions = await self._door.reset(
                statement.topic, statement.group, statement.partition, statement.to, who
            )
            return [[topic.name, statement.group, partition, statement.to] for partition in partitions]
        wanted = Wanted(
            topic=statement.topic,
            group=statement.group,
            start=statement.start,
            limit=clamped(statement.limit),
            partition=statement.partition or 0,
            wait_s=0.0,
        )
        return [of_sql(message) for message in (await self._door.consume(wanted, who)).messages]
