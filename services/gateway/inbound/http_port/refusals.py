"""Refusals of the HTTP port, and the one shape that their bodies have."""

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import HTTPException
from starlette.responses import Response

CODES = {
    400: "invalid_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    413: "too_large",
    415: "invalid_request",
    421: "misdirected",
    422: "invalid_request",
    429: "too_many_requests",
    431: "too_large",
    503: "unavailable",
    504: "timeout",
}
CHALLENGES = ('Basic realm="tidewire", charset="UTF-8"', 'Bearer realm="tidewire"')


class HttpRefusal(HTTPException):
    """A request that is answered with an error; `message` is a sentence for the caller."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(status, message)
        self.code, self.message, self.details = code or CODES.get(status, "error"), message, dict(details or {})
        self.retry_after_s = retry_after_s

    def response(self) -> Response:
        answer = error_response(self.status_code, self.message, code=self.code, details=self.details)
        if self.retry_after_s is not None:
            answer.headers["Retry-After"] = str(max(1, round(self.retry_after_s + 0.5)))
        return answer


def error_body(
    status: int, message: str, *, code: str | None = None, details: Mapping[str, Any] | None = None
) -> bytes:
    """{"error": {"code", "message", "details"}}: the body of every error of a door that has no form of its own."""
    named = code or CODES.get(status, "internal" if status >= 500 else "error")
    return orjson.dumps({"error": {"code": named, "message": message, "details": dict(details or {})}})


def error_response(
    status: int, message: str, *, code: str | None = None, details: Mapping[str, Any] | None = None
) -> Response:
    """An error as a response; 401 says how to authenticate."""
    answer = Response(error_body(status, message, code=code, details=details), status, media_type="application/json")
    if status == 401:
        for challenge in CHALLENGES:
            answer.headers.append("WWW-Authenticate", challenge)
    return answer
