"""The envelope of `/api/v1/rpc` (S2, S3), also around what is refused before the door sees it.

Clients of the original go by `ok` and not by the status, so every body of that path is an envelope.
"""

from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

RPC_PATH = "/api/v1/rpc"
CODES = frozenset(
    {
        "invalid_request",
        "unsupported_version",
        "unauthorized",
        "forbidden",
        "not_found",
        "not_supported",
        "not_implemented",
        "conflict",
        "timeout",
        "internal",
        "precondition_failed",
    }
)
# Codes of the HTTP port that the envelope does not know.
_AS = {
    "too_large": "invalid_request",
    "misdirected": "invalid_request",
    "method_not_allowed": "not_supported",
    "too_many_requests": "unauthorized",
}


def failed(call_id: Any, code: str, message: str, details: object = None) -> bytes:
    known = code if code in CODES else _AS.get(code, "internal")
    error = {"code": known, "message": message, "details": details or {}}
    return orjson.dumps({"id": call_id, "ok": False, "error": error})


def succeeded(call_id: Any, result: Any) -> bytes:
    return orjson.dumps({"id": call_id, "ok": True, "result": result})


class Envelopes:
    """Turns error bodies of the path into envelopes; all else passes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != RPC_PATH:
            await self._app(scope, receive, send)
            return
        begun: Message | None = None

        async def sending(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start" and message["status"] >= 400:
                begun = message
            elif begun is None:
                await send(message)
            else:
                # Bodies of errors come whole.
                body = _wrapped(message.get("body", b""))
                headers = [(name, value) for name, value in begun["headers"] if name.lower() != b"content-length"]
                await send({**begun, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
                await send({**message, "body": body})
                begun = None

        await self._app(scope, receive, sending)


def _wrapped(body: bytes) -> bytes:
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        return failed(None, "internal", body.decode(errors="replace"))
    if "ok" in told:
        return body
    error = told.get("error", {})
    return failed(None, error.get("code", "internal"), error.get("message", ""), error.get("details"))
