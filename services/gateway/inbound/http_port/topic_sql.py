"""`POST /v1/api/sql`: the topic statements that the gateway itself carries out, in upstream's form of answers.

Everything else, definitions and ordinary SQL, belongs to a connection that PostgreSQL authenticated: the PG port.
"""

import time
from typing import Any, Protocol

import msgspec
import orjson
from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from services.gateway.core.http_identity import HttpIdentity
from services.gateway.core.topics.parse import parse
from services.gateway.core.topics.statements import Ack, Consume, Reset, TopicSqlError
from services.gateway.errors import CursorsUnavailable, TopicRefused
from services.gateway.inbound.http_port.app import DECLARED, REFUSALS, Caller

JSON = "application/json"
ELSEWHERE = "only CONSUME, ACK and RESET CONSUMER GROUP are answered here: send other statements to the PG port"
STATUSES = {"forbidden": (403, "FORBIDDEN"), "missing": (404, "NOT_FOUND"), "invalid": (400, "INVALID_REQUEST")}
CONSUMED = (
    ("topic_id", "Text"),
    ("partition_id", "Int"),
    ("offset", "BigInt"),
    ("key", "Text"),
    ("payload", "Bytes"),
    ("timestamp_ms", "BigInt"),
    ("user_id", "Text"),
    ("op", "Text"),
)
ACKED = (("topic", "Text"), ("group_id", "Text"), ("partition", "Int"), ("committed_offset", "BigInt"))
RESET = (("topic", "Text"), ("group_id", "Text"), ("partition", "Int"), ("next_offset", "BigInt"))


class SqlBody(Struct):
    sql: str
    params: list[Any] | None = None
    namespace_id: str | None = None


class SqlMethods(Protocol):
    """Rows of a statement, for a verified caller."""

    async def run(self, statement: Consume | Ack | Reset, caller: HttpIdentity) -> list[list[Any]]: ...


class TopicSqlDoor:
    def __init__(self, methods: SqlMethods) -> None:
        self._methods = methods

    @property
    def router(self) -> APIRouter:
        router = APIRouter(prefix="/v1/api", tags=["topics"], dependencies=DECLARED, responses=REFUSALS)

        @router.post("/sql", summary="CONSUME, ACK or RESET CONSUMER GROUP")
        async def sql(request: Request, caller: Caller) -> Response:
            return await self._answer(await request.body(), caller)

        return router

    async def _answer(self, raw: bytes, caller: HttpIdentity) -> Response:
        began_s = time.monotonic()
        try:
            statement = parse(msgspec.json.decode(raw, type=SqlBody).sql)
            if not isinstance(statement, Consume | Ack | Reset):
                return _failed(400, "NOT_SUPPORTED", ELSEWHERE, began_s)
            rows = await self._methods.run(statement, caller)
        except msgspec.DecodeError as error:
            return _failed(422, "INVALID_REQUEST", f"the body is not what is expected: {error}", began_s)
        except TopicSqlError as error:
            words = ELSEWHERE if error.place == 1 else error.words
            return _failed(400, "SQL_EXECUTION_ERROR", f"{words} at character {error.place}", began_s)
        except TopicRefused as refusal:
            status, code = STATUSES.get(refusal.kind, (503, "UNAVAILABLE"))
            return _failed(status, code, refusal.message, began_s)
        except CursorsUnavailable as error:
            return _failed(503, "UNAVAILABLE", str(error), began_s)
        columns = {Consume: CONSUMED, Ack: ACKED, Reset: RESET}[type(statement)]
        result = {
            "schema": [{"name": name, "data_type": kind, "index": at} for at, (name, kind) in enumerate(columns)],
            "rows": [[_cell(value, kind) for value, (_, kind) in zip(row, columns, strict=True)] for row in rows],
            "row_count": len(rows),
            "as_user": caller.name,
        }
        return _json(200, {"status": "success", "results": [result], "took": _took(began_s)})


def _cell(value: Any, kind: str) -> Any:
    """Numbers that JavaScript cannot hold go as text."""
    return str(value) if kind == "BigInt" and value is not None else value


def _failed(status: int, code: str, words: str, began_s: float) -> Response:
    error = {"code": code, "message": words}
    return _json(status, {"status": "error", "results": [], "took": _took(began_s), "error": error})


def _json(status: int, body: dict[str, Any]) -> Response:
    return Response(orjson.dumps(body), status, media_type=JSON)


def _took(began_s: float) -> float:
    return round((time.monotonic() - began_s) * 1000, 3)
