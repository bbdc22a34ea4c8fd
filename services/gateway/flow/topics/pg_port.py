"""CONSUME, ACK and RESET CONSUMER GROUP of a session on the PG port: what PostgreSQL is sent instead of them.

They are carried out at a moment at which nothing of the session is under way, for the role that it then has; what they
did is done, whatever becomes of the transaction that they stand in.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Protocol

from services.gateway.core.http_identity import RoleFacts, of_login
from services.gateway.core.principal import ProvenIdentity
from services.gateway.core.topics.rewrite import refused, shown
from services.gateway.core.topics.statements import Carried, TopicSqlError
from services.gateway.errors import CursorsUnavailable, LoginUnknown, SubscribeRefused, TopicRefused
from services.gateway.flow.topics.door import TopicCaller
from services.gateway.flow.topics.sql import TopicSql

SQLSTATES = {"forbidden": "42501", "missing": "42704", "invalid": "22023"}
NOT_NOW, UNPROVEN = "57P03", "55000"


class RoleFinder(Protocol):
    async def facts(self, name: str) -> RoleFacts | None: ...


class TopicsOnPgPort:
    def __init__(self, sql: TopicSql, roles: RoleFinder) -> None:
        self._sql, self._roles = sql, roles

    async def answered(self, statement: Carried, prove: Callable[[], Awaitable[ProvenIdentity]]) -> str:
        """What PostgreSQL is sent: the rows, or the refusal, which fails in the client's transaction."""
        try:
            rows = await self._sql.rows(statement, await self._caller(await prove()))
            return shown(statement, rows, secrets.token_hex(8))
        except TopicSqlError as refusal:
            error = refusal
        except TopicRefused as refusal:
            place = statement.place if refusal.kind == "missing" else 1
            error = TopicSqlError(refusal.message, place, sqlstate=SQLSTATES.get(refusal.kind, NOT_NOW))
        except (CursorsUnavailable, LoginUnknown) as refusal:
            error = TopicSqlError(str(refusal), 1, sqlstate=NOT_NOW, hint="Nothing was done: try again.")
        except SubscribeRefused as refusal:
            # In a transaction that has failed PostgreSQL says so by itself.
            error = TopicSqlError(refusal.message.removeprefix("Execution error: "), 1, sqlstate=UNPROVEN)
        return refused(error)

    async def _caller(self, identity: ProvenIdentity) -> TopicCaller:
        role = identity.principal.role
        facts = await self._roles.facts(role)
        return TopicCaller("user" if facts is None else of_login(facts).service_role, role)
