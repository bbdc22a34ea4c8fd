"""One HTTP connection: uvicorn's, with limits on how long a request may take to arrive and an answer to be read.

uvicorn itself waits for ever for the rest of a request that has begun, and for a client that does not read.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import h11
from msgspec import Struct
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from services.gateway.core.failed_logins import group_of
from services.gateway.inbound.http_port.refusals import error_body

# The application answers a slow body itself (guards.py); this is for what no application sees.
GRACE_S = 1.0
NOT_HTTP = "this is no HTTP request that can be read"
TOO_SLOW = "the request did not arrive in time"
TOO_MANY = "too many connections: try again later"


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    receive_timeout_s: float
    unread_timeout_s: float
    connections: int
    connections_per_address: int
    # Proxies, whose clients come from one address.
    trusted_proxies: tuple[str, ...] = ()


def connections_with(limits: ConnectionLimits) -> Callable[..., asyncio.Protocol]:
    """The class of connections that uvicorn makes, bound to these limits."""

    class LimitedConnection(BoundedConnection):
        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            super().__init__(config, server_state, app_state, _loop)
            self.limits = limits

    return LimitedConnection


class BoundedConnection(H11Protocol):
    """uvicorn's connection with two more timers: for the request that arrives, and for the answer that is not read."""

    limits: ConnectionLimits
    _arriving: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._too_many():
            self._answer_error(503, TOO_MANY)
        else:
            self._expect_request()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._expect_request()
        super().data_received(data)
        # Nothing more is owed by a client whose request is whole, or that has not begun the next one.
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR) or self._is_between_requests():
            self._cancel_arriving()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(self.limits.unread_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_arriving()
        self._cancel_unread()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._cancel_arriving()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Called for what cannot be parsed: in the shape of all other errors, or not at all inside an answer."""
        status = getattr(sys.exception(), "error_status_hint", 400)
        self._answer_error(status if status in (400, 431) else 400, NOT_HTTP)

    def _too_many(self) -> bool:
        if len(self.connections) > self.limits.connections:
            return True
        if self.client is not None and self.client[0] in self.limits.trusted_proxies:
            return False
        ours = _address(self)
        return sum(_address(each) == ours for each in self.connections) > self.limits.connections_per_address

    def _is_between_requests(self) -> bool:
        return self.cycle is not None and self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]

    def _expect_request(self) -> None:
        if self._arriving is None:
            self._arriving = self.loop.call_later(self.limits.receive_timeout_s, self._on_slow_request)

    def _on_slow_request(self) -> None:
        if self.conn.our_state is h11.IDLE:
            self._answer_error(408, TOO_SLOW)
        else:
            self._arriving = self.loop.call_later(GRACE_S, self.transport.abort)

    def _answer_error(self, status: int, message: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        body = error_body(status, message)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:
            self.cycle.disconnected = True  # an application that still answers answers nobody
        self.transport.close()

    def _cancel_arriving(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def _address(connection: object) -> str | None:
    """The client's address, also of a connection that has become a WebSocket."""
    client = getattr(connection, "client", None)
    return group_of(client[0]) if client else None
