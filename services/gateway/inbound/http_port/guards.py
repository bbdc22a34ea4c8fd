"""What every request passes before a door sees it: Host and Origin, size, time, and the access log behind it."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.typing import FilteringBoundLogger

from services.gateway.core.same_site import SiteRules, wrong_host, wrong_origin
from services.gateway.inbound.http_port.refusals import HttpRefusal
from services.gateway.metrics import HttpMetrics

# Paths below which answers last as long as the caller likes; doors that stream are added here.
LONG_LIVED: tuple[str, ...] = (
    "/api/v1/cdc/sse/",
    "/api/v1/cdc/snapshot/",
    "/api/v1/admin/stream",
    # Long polls have a limit of their own.
    "/api/topics/consume",
    "/v1/api/topics/consume",
)
LONGEST_SHOWN_PATH = 256
# Where a door leaves the caller's name for the access log.
CALLER = "tidewire.caller"
FAILED = "the request failed inside the gateway"


class RequestLimits(Struct, frozen=True, kw_only=True):
    header_bytes: int
    body_bytes: int
    receive_timeout_s: float
    request_timeout_s: float


class AccessLog:
    """One event for each answer: no header and no query string, where secrets are."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: HttpMetrics,
        log: FilteringBoundLogger,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app, self._metrics, self._log, self._clock = app, metrics, log, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = self._clock(), 0
        scope.setdefault("state", {})

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._metrics.answered(status)
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            client = scope.get("client")
            self._log.info(
                "http_answered",
                method=scope["method"],
                path=scope["path"][:LONGEST_SHOWN_PATH],
                status=status,
                client=client[0] if client else None,
                caller=scope["state"].get(CALLER),
                took_ms=round(1000 * (self._clock() - began), 1),
            )


class Limits:
    """Bounds a request's body and time, and turns what goes wrong before the answer begins into an error body."""

    def __init__(self, app: ASGIApp, limits: RequestLimits, log: FilteringBoundLogger) -> None:
        self._app, self._limits, self._log = app, limits, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        refusal = self._announced(scope)
        try:
            if refusal is None:
                async with asyncio.timeout(self._deadline_s(scope["path"])):
                    await self._app(scope, _Body(receive, self._limits).receive, answer.send)
        except HttpRefusal as raised:
            refusal = raised
        except asyncio.CancelledError:  # by uvicorn alone, when the drain is over
            refusal = HttpRefusal(503, "the gateway is stopping: try again", retry_after_s=1.0)
        except TimeoutError:
            refusal = HttpRefusal(504, "the request took too long")
        except Exception as error:  # one request's fault ends that request
            self._log.error("http_request_failed", path=scope["path"][:LONGEST_SHOWN_PATH], exc_info=error)
            refusal = HttpRefusal(500, FAILED, code="internal")
        if refusal is not None:
            await answer.refuse(refusal, scope, receive)

    def _deadline_s(self, path: str) -> float | None:
        return None if path.startswith(LONG_LIVED) else self._limits.request_timeout_s

    def _announced(self, scope: Scope) -> HttpRefusal | None:
        """What the head alone tells. (The parser's own limit is for heads that do not end.)"""
        head = len(scope["raw_path"]) + len(scope["query_string"])
        if head + sum(len(name) + len(value) for name, value in scope["headers"]) > self._limits.header_bytes:
            return HttpRefusal(431, f"the head of the request is larger than {self._limits.header_bytes} bytes")
        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdecimal():
            return HttpRefusal(400, "the Content-Length cannot be read")
        return _too_large(self._limits) if int(length) > self._limits.body_bytes else None


class Site:
    """Lets only requests pass that were meant for this server, by pages that may ask it."""

    def __init__(self, app: ASGIApp, rules: SiteRules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await refusal.response()(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": refusal.message[:100]})

    def _refusal(self, scope: Scope) -> HttpRefusal | None:
        headers, server = Headers(scope=scope), scope.get("server")
        reason = wrong_host(headers.get("host"), server_address=server[0] if server else None, rules=self._rules)
        if reason is not None:
            return HttpRefusal(421, reason)
        reason = wrong_origin(headers, self._rules)
        return None if reason is None else HttpRefusal(403, reason)


class _Body:
    """The request's body as it comes, up to its limit and deadline."""

    def __init__(self, receive: Receive, limits: RequestLimits) -> None:
        self._receive, self._limits = receive, limits
        self._bytes, self._whole = 0, False

    async def receive(self) -> Message:
        if self._whole:  # then only the client's hanging up can come
            return await self._receive()
        try:
            async with asyncio.timeout(self._limits.receive_timeout_s):
                message = await self._receive()
        except TimeoutError:
            raise HttpRefusal(408, "the request's body did not arrive in time") from None
        self._bytes += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._bytes > self._limits.body_bytes:
            raise _too_large(self._limits)
        return message


class _Answer:
    """Whether an answer has begun: after that an error can only end the connection."""

    def __init__(self, send: Send) -> None:
        self._send, self._begun = send, False

    async def send(self, message: Message) -> None:
        self._begun = True
        await self._send(message)

    async def refuse(self, refusal: HttpRefusal, scope: Scope, receive: Receive) -> None:
        if self._begun:
            return  # uvicorn closes a connection whose answer is not whole
        response = refusal.response()
        if refusal.status_code == 408:
            response.headers["Connection"] = "close"
        with suppress(OSError):
            await response(scope, receive, self._send)


def _too_large(limits: RequestLimits) -> HttpRefusal:
    return HttpRefusal(413, f"the body is larger than {limits.body_bytes} bytes")
