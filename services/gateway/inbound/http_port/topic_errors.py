"""The form of errors on the paths of the topics door (K20): {"error": sentence, "code": CODE}, whoever refuses."""

from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATHS = ("/api/topics/", "/v1/api/")
CODES = {
    400: "INVALID_REQUEST",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    408: "TIMEOUT",
    413: "TOO_LARGE",
    422: "INVALID_REQUEST",
    429: "TOO_MANY_REQUESTS",
    503: "UNAVAILABLE",
    504: "TIMEOUT",
}


def topic_error(status: int, words: str) -> bytes:
    # Upstream's clients of /v1/api/auth show `message`; those of topics show `error`.
    code = CODES.get(status, "INTERNAL_ERROR" if status >= 500 else "INVALID_REQUEST")
    return orjson.dumps({"error": words, "code": code, "message": words})


class TopicErrors:
    """Turns the port's error bodies on these paths into the documented form; all else passes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(PATHS):
            await self._app(scope, receive, send)
            return
        begun: Message | None = None
        body = b""

        async def sending(message: Message) -> None:
            nonlocal begun, body
            if message["type"] == "http.response.start" and message["status"] >= 400:
                begun = message
                return
            if begun is None or message["type"] != "http.response.body":
                await send(message)
                return
            body += message.get("body", b"")
            if message.get("more_body"):
                return
            changed = _changed(begun["status"], body)
            headers = [each for each in begun["headers"] if each[0].lower() != b"content-length"]
            await send({**begun, "headers": [*headers, (b"content-length", str(len(changed)).encode())]})
            await send({"type": "http.response.body", "body": changed})

        await self._app(scope, receive, sending)


def _changed(status: int, body: bytes) -> bytes:
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return topic_error(status, "the request was refused")
    error = found.get("error") if isinstance(found, dict) and "status" not in found else None
    if isinstance(error, dict):
        return topic_error(status, str(error.get("message", "")))
    return body
