"""`POST /api/v1/rpc`: one call a request, in the envelope of S2; and `GET /api/v1/q/{query_id}`."""

from collections.abc import Mapping
from typing import Any, Protocol

import orjson
from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from services.gateway.core.http_identity import HttpIdentity
from services.gateway.core.nesting import NestedTooDeep, refuse_deep
from services.gateway.errors import CursorsUnavailable, RpcRefused
from services.gateway.inbound.http_port.app import API, DECLARED, Caller
from services.gateway.inbound.http_port.envelopes import failed, succeeded
from services.gateway.inbound.http_port.refusals import HttpRefusal

VERSION = "1.0"
JSON = "application/json"
STATUSES = {"not_found": 404, "forbidden": 403, "unauthorized": 401, "timeout": 504, "conflict": 409}
_CALL = {
    "type": "object",
    "required": ["skeinql", "method"],
    "properties": {
        "skeinql": {"type": "string", "const": VERSION},
        "id": {
            "anyOf": [{"type": "string"}, {"type": "number"}],
            "description": "Without it there is no answer (204).",
        },
        "method": {"type": "string"},
        "params": {"type": "object"},
    },
}
_ANSWER = {
    "type": "object",
    "required": ["ok"],
    "properties": {
        "id": {},
        "ok": {"type": "boolean"},
        "result": {},
        "error": {
            "type": "object",
            "required": ["code", "message", "details"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "details": {"type": "object"},
            },
        },
    },
}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "The answer, also of a call that failed", "content": {JSON: {"schema": _ANSWER}}},
    204: {"description": "Of a call without an id"},
    "default": {"description": "The call did not come that far", "content": {JSON: {"schema": _ANSWER}}},
}


class Methods(Protocol):
    async def call(self, method: str, params: Mapping[str, Any], caller: HttpIdentity) -> Any: ...


class Results(Protocol):
    """A prepared query's result as JSON, and its ETag."""

    async def result(self, query_id: str, args: str | None, caller: HttpIdentity) -> tuple[dict[str, Any], str]: ...


class RpcDoor:
    def __init__(self, methods: Methods, results: Results) -> None:
        self._methods, self._results = methods, results

    @property
    def router(self) -> APIRouter:
        router = APIRouter(prefix=API, tags=["cdc"], dependencies=DECLARED)
        body = {"requestBody": {"required": True, "content": {JSON: {"schema": _CALL}}}}

        @router.post("/rpc", summary="Call a method", responses=_ANSWERS, openapi_extra=body)
        async def rpc(request: Request, caller: Caller) -> Response:
            return await self._answer(await request.body(), caller)

        @router.get(
            "/q/{query_id}",
            summary="The result of a prepared query",
            responses={
                304: {"description": "It is the one that If-None-Match names"},
                "default": {"description": "Refused"},
            },
        )
        async def query(
            query_id: str,
            caller: Caller,
            args: str | None = Query(None, description="A JSON list of typed literals"),
            if_none_match: str | None = Header(None),
        ) -> Response:
            return await self._result(query_id, args, if_none_match, caller)

        return router

    async def _answer(self, body: bytes, caller: HttpIdentity) -> Response:
        try:
            call = orjson.loads(body)
        except orjson.JSONDecodeError:
            return _json(failed(None, "invalid_request", "the body is no JSON"), 400)
        if not isinstance(call, dict):
            return _json(failed(None, "invalid_request", "the body is no object"))
        call_id, wants_answer = call.get("id"), "id" in call
        if call_id is not None and (isinstance(call_id, bool) or not isinstance(call_id, str | int | float)):
            return _json(failed(None, "invalid_request", "id must be a string or a number", {"field": "id"}))
        try:
            refuse_deep(call)
            answer = _json(succeeded(call_id, await self._called(call, caller)))
        except NestedTooDeep as error:
            answer = _json(failed(call_id, "invalid_request", str(error)))
        except RpcRefused as refusal:
            status = 503 if refusal.details.get("retry") else 200
            answer = _json(failed(call_id, refusal.code, refusal.message, refusal.details), status)
        except CursorsUnavailable as error:
            answer = _json(failed(call_id, "internal", str(error), {"retry": True}), 503)
        return answer if wants_answer else Response(status_code=204)

    async def _called(self, call: Mapping[str, Any], caller: HttpIdentity) -> Any:
        version, method, params = call.get("skeinql"), call.get("method"), call.get("params")
        if version != VERSION:
            raise RpcRefused("unsupported_version", f"skeinql must be {VERSION!r}", details={"supported": [VERSION]})
        if not isinstance(method, str):
            raise RpcRefused("invalid_request", "Missing field: method", details={"field": "method"})
        if params is not None and not isinstance(params, dict):
            raise RpcRefused("invalid_request", "params must be an object", details={"field": "params"})
        return await self._methods.call(method, params or {}, caller)

    async def _result(
        self, query_id: str, args: str | None, if_none_match: str | None, caller: HttpIdentity
    ) -> Response:
        with refusing():
            result, etag = await self._results.result(query_id, args, caller)
        headers = {"ETag": etag, "Cache-Control": "private, no-cache"}
        named = [each.strip().removeprefix("W/") for each in (if_none_match or "").split(",")]
        if etag in named or "*" in named:
            return Response(status_code=304, headers=headers)
        return Response(orjson.dumps(result), media_type=JSON, headers=headers)


class refusing:
    """Around calls of the door in routes that are no RPC: its refusals become those of HTTP."""

    def __enter__(self) -> "refusing":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RpcRefused):
            status = 503 if error.details.get("retry") else STATUSES.get(error.code, 400)
            raise HttpRefusal(
                status,
                error.message,
                code=error.code,
                details=error.details,
                retry_after_s=1.0 if status == 503 else None,
            ) from error
        if isinstance(error, CursorsUnavailable):
            raise HttpRefusal(503, str(error), code="internal", retry_after_s=1.0) from error


def _json(body: bytes, status: int = 200) -> Response:
    headers = {"Retry-After": "1"} if status == 503 else None
    return Response(body, status, media_type=JSON, headers=headers)
