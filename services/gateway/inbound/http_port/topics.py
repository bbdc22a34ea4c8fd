"""`/api/topics/*` and `/v1/api/topics/*`: consume, ack, latest-offsets."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec
import orjson
from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from proto.tidewire.v1.user_topics_pb2 import TopicMessage
from services.gateway.core.http_identity import HttpIdentity
from services.gateway.core.topics.answers import MOST_OFFSET, clamped, of_code, of_document, start_of, waiting_s
from services.gateway.core.topics.statements import MOST_GROUP_LETTERS
from services.gateway.errors import CursorsUnavailable, TopicRefused
from services.gateway.inbound.http_port.app import DECLARED, REFUSALS, Caller
from services.gateway.inbound.http_port.topic_errors import topic_error
from services.gateway.settings import Topics

JSON = "application/json"
STATUSES = {"forbidden": 403, "missing": 404, "invalid": 422, "unavailable": 503}
MOST_ASKED = 1_000

T = TypeVar("T")
Shown = Callable[[TopicMessage], dict[str, Any]]


class ConsumeBody(Struct):
    topic: str | None = None
    topic_id: str | None = None
    group_id: str | None = None
    start: Any = "Latest"
    limit: int | None = None
    partition_id: int = 0
    timeout_seconds: float | None = None


class AckBody(Struct):
    upto_offset: int
    group_id: str
    topic: str | None = None
    topic_id: str | None = None
    partition_id: int = 0
    claim_id: str | None = None


class _Partition(Struct):
    partition_id: int = 0
    topic: str | None = None
    topic_id: str | None = None


class LatestBody(Struct):
    partitions: list[_Partition]


class TopicMethods(Protocol):
    """What the flow does for these routes, for a verified caller."""

    async def consume(self, body: ConsumeBody, wait_s: float, caller: HttpIdentity) -> Any: ...

    async def ack(self, body: AckBody, caller: HttpIdentity) -> tuple[int, int | None]: ...

    async def latest(self, name: str, partition: int, caller: HttpIdentity) -> tuple[str, int]: ...


class TopicsHttp:
    def __init__(self, methods: TopicMethods, settings: Topics) -> None:
        self._methods, self._settings = methods, settings

    @property
    def router(self) -> APIRouter:
        router = APIRouter(tags=["topics"], dependencies=DECLARED, responses=REFUSALS)
        for base, shown in (("/api/topics", of_document), ("/v1/api/topics", of_code)):
            self._add(router, base, shown)
        return router

    def _add(self, router: APIRouter, base: str, shown: Shown) -> None:
        @router.post(f"{base}/consume", summary="Messages of a topic; held until there are some")
        async def consume(request: Request, caller: Caller) -> Response:
            return await _answered(self._consume(request, caller, shown))

        @router.post(f"{base}/ack", summary="Retire messages of a group")
        async def ack(request: Request, caller: Caller) -> Response:
            return await _answered(self._ack(await request.body(), caller))

        @router.post(f"{base}/latest-offsets", summary="Where topics end")
        async def latest(request: Request, caller: Caller) -> Response:
            return await _answered(self._latest(await request.body(), caller))

    async def _consume(self, request: Request, caller: HttpIdentity, shown: Shown) -> dict[str, Any]:
        body = _read(await request.body(), ConsumeBody)
        asked = body.timeout_seconds
        if asked is None and "x-consume-timeout" in request.headers:
            asked = _seconds(request.headers["x-consume-timeout"])
        own = self._settings
        wait_s = waiting_s(asked, default=own.default_consume_timeout, most=own.max_consume_timeout)
        batch = await self._methods.consume(body, wait_s, caller)
        answer = {
            "messages": [shown(message) for message in batch.messages],
            "next_offset": batch.next_offset,
            "has_more": batch.has_more,
        }
        if batch.claim_id is not None:
            answer["claim_id"] = batch.claim_id
        if batch.trimmed:
            answer["trimmed"] = True
        return answer

    async def _ack(self, raw: bytes, caller: HttpIdentity) -> dict[str, Any]:
        acknowledged, committed = await self._methods.ack(_read(raw, AckBody), caller)
        return {"success": True, "acknowledged_offset": acknowledged, "committed_offset": committed}

    async def _latest(self, raw: bytes, caller: HttpIdentity) -> dict[str, Any]:
        body = _read(raw, LatestBody)
        if len(body.partitions) > MOST_ASKED:
            raise TopicRefused("invalid", f"at most {MOST_ASKED} partitions can be asked for together")
        offsets = []
        for each in body.partitions:
            topic_id, following = await self._methods.latest(named(each), each.partition_id, caller)
            last = following - 1 if following else None
            offsets.append(
                {"topic_id": topic_id, "partition_id": each.partition_id, "next_offset": following, "last_offset": last}
            )
        return {"offsets": offsets}


def named(body: ConsumeBody | AckBody | _Partition) -> str:
    """The topic, by either name of the field."""
    if (body.topic is None) == (body.topic_id is None):
        raise TopicRefused("invalid", "name the topic by `topic` or by `topic_id`")
    return body.topic or body.topic_id or ""


def grouped(group: str | None) -> str | None:
    """None or blank: without a group."""
    if group is None or not group.strip():
        return None
    if len(group) > MOST_GROUP_LETTERS or "\0" in group or any("\ud800" <= letter <= "\udfff" for letter in group):
        raise TopicRefused("invalid", f"group_id must have at most {MOST_GROUP_LETTERS} letters")
    return group


def checked_offset(offset: int) -> int:
    if not 0 <= offset <= MOST_OFFSET:
        raise TopicRefused("invalid", "an offset must not be negative")
    return offset


def checked_start(value: Any) -> Any:
    try:
        return start_of(value)
    except ValueError as error:
        raise TopicRefused("invalid", str(error)) from None


def checked_limit(limit: int | None) -> int:
    return clamped(limit)


def _seconds(header: str) -> float:
    try:
        return float(int(header))
    except ValueError:
        raise TopicRefused("invalid", "X-Consume-Timeout must be a number of seconds") from None


def _read(raw: bytes, form: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=form)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise TopicRefused("invalid", f"the body is not what is expected: {error}") from None


async def _answered(answer: Any) -> Response:
    try:
        return Response(orjson.dumps(await answer), media_type=JSON)
    except TopicRefused as refusal:
        status = STATUSES[refusal.kind]
        return _error(status, refusal.message)
    except CursorsUnavailable as error:
        return _error(503, str(error))


def _error(status: int, words: str) -> Response:
    headers = {"Retry-After": "1"} if status == 503 else None
    return Response(topic_error(status, words), status, media_type=JSON, headers=headers)
