"""The streams of the CDC door: SSE and WebSocket (S32 to S39)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from fastapi import APIRouter, Header, Query, Request, WebSocket
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocketDisconnect

from services.gateway.core.cdc.events import sse_control, sse_event, ws_frame
from services.gateway.core.cdc.pieces import Control, Events, Piece
from services.gateway.core.http_identity import HttpIdentity
from services.gateway.inbound.http_port.app import API, DECLARED, StreamCaller, identified_on_stream
from services.gateway.inbound.http_port.authentication import Authentication
from services.gateway.inbound.http_port.refusals import HttpRefusal
from services.gateway.inbound.http_port.rpc import refusing

RETRY = b"retry: 1000\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
# WebSocket's close codes: the stream ended as it should, its rights ended, the client reads too slowly.
NORMAL, NO_RIGHT, TOO_SLOW = 1000, 4003, 1013
LARGEST_OFFSET = 2**53
# Python reads a number of thousands of digits slowly, or not at all.
MOST_DIGITS = 20
LINES = "application/x-ndjson"

Recheck = Callable[[HttpIdentity], Awaitable[HttpIdentity | None]]


class Streams(Protocol):
    async def open(
        self, sub_id: str, from_offset: int | None, caller: HttpIdentity, recheck: Recheck
    ) -> AsyncIterator[Piece]: ...


class Snapshots(Protocol):
    async def open(
        self, sub_id: str, after: str | None, from_offset: int | None, caller: HttpIdentity
    ) -> AsyncIterator[bytes]: ...


class StreamDoor:
    def __init__(self, streams: Streams, snapshots: Snapshots, *, unread_timeout_s: float) -> None:
        self._streams, self._snapshots, self._unread_timeout_s = streams, snapshots, unread_timeout_s

    @property
    def router(self) -> APIRouter:
        router = APIRouter(prefix=f"{API}/cdc", tags=["cdc"])
        described: dict[int | str, dict[str, Any]] = {
            200: {
                "description": "Events, until the client or the subscription ends",
                "content": {"text/event-stream": {}},
            },
            "default": {"description": "Refused"},
        }

        @router.get("/sse/{sub_id}", summary="The events of a subscription", responses=described, dependencies=DECLARED)
        async def sse(
            request: Request,
            sub_id: str,
            caller: StreamCaller,
            from_offset: int | None = Query(None, ge=0, le=LARGEST_OFFSET),
            last_event_id: str | None = Header(None),
        ) -> Response:
            start = resumed(from_offset, last_event_id)
            with refusing():
                pieces = await self._streams.open(sub_id, start, caller, _recheck(request))
            return StreamingResponse(_sse(pieces), media_type="text/event-stream", headers=HEADERS)

        @router.get(
            "/snapshot/{sub_id}",
            summary="The table of a subscription, at one offset",
            dependencies=DECLARED,
            responses={
                200: {"description": "Lines of JSON", "content": {LINES: {}}},
                "default": {"description": "Refused"},
            },
        )
        async def snapshot(
            sub_id: str,
            caller: StreamCaller,
            after: str | None = Query(None, description="The last key that came, a JSON list of typed literals"),
            from_offset: int | None = Query(None, ge=0, le=LARGEST_OFFSET, description="The offset of that snapshot"),
        ) -> Response:
            with refusing():
                lines = await self._snapshots.open(sub_id, after, from_offset, caller)
            return StreamingResponse(lines, media_type=LINES, headers=HEADERS)

        @router.websocket("/ws/{sub_id}")
        async def ws(socket: WebSocket, sub_id: str) -> None:
            await self._websocket(socket, sub_id)

        return router

    async def _websocket(self, socket: WebSocket, sub_id: str) -> None:
        try:
            caller = await identified_on_stream(socket)
            start = resumed(_offset(socket.query_params.get("from_offset")), socket.headers.get("last-event-id"))
            with refusing():
                pieces = await self._streams.open(sub_id, start, caller, _recheck(socket))
        except HttpRefusal as refusal:
            await socket.send_denial_response(refusal.response())
            return
        await socket.accept()
        hearing = asyncio.create_task(_heard_out(socket))
        telling = asyncio.create_task(self._told(socket, pieces))
        try:
            await asyncio.wait([hearing, telling], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (hearing, telling):
                task.cancel()
            await asyncio.gather(hearing, telling, return_exceptions=True)

    async def _told(self, socket: WebSocket, pieces: AsyncIterator[Piece]) -> None:
        code = NORMAL
        try:
            async for piece in pieces:
                if isinstance(piece, Control):
                    code = NO_RIGHT if piece.name == "error" else NORMAL
                for frame in _frames(piece):
                    async with asyncio.timeout(self._unread_timeout_s):
                        await socket.send_text(frame)
        except TimeoutError:
            code = TOO_SLOW
        except (WebSocketDisconnect, RuntimeError, OSError):
            return  # it left
        await socket.close(code)


def resumed(from_offset: int | None, last_event_id: str | None) -> int | None:
    """Where to go on: a client that came again sends its first URL with the id that it saw last."""
    seen = _offset(last_event_id)
    found = [offset for offset in (from_offset, seen) if offset is not None]
    return max(found) if found else None


def _offset(text: str | None) -> int | None:
    if text is None or text == "":
        return None
    if len(text) > MOST_DIGITS or not text.isascii() or not text.isdecimal() or int(text) > LARGEST_OFFSET:
        raise HttpRefusal(400, "from_offset and Last-Event-ID are offsets: whole numbers")
    return int(text)


async def _sse(pieces: AsyncIterator[Piece]) -> AsyncIterator[bytes]:
    yield RETRY
    async for piece in pieces:
        match piece:
            case Events():
                yield b"".join([sse_event(told.seq, told.op, told.data) for told in piece.told])
            case Control():
                yield sse_control(piece.name, piece.data)
            case _:
                yield KEEP_ALIVE


def _frames(piece: Piece) -> list[str]:
    match piece:
        case Events():
            return [ws_frame(told.seq, told.op, told.data) for told in piece.told]
        case Control():
            return [ws_frame(piece.at, piece.name, piece.data)]
    return []  # uvicorn pings by itself


async def _heard_out(socket: WebSocket) -> None:
    """Until the client leaves; what it says means nothing here."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


def _recheck(connection: Request | WebSocket) -> Recheck:
    authentication: Authentication = connection.app.state.authentication
    return authentication.recheck
