"""The NOTIFY door over HTTP: a WebSocket for each registered query, and its whole result (P23 to P35)."""

import asyncio
from collections.abc import Awaitable, Callable
from json import dumps
from typing import Protocol

from fastapi import APIRouter, WebSocket
from starlette.responses import Response
from starlette.websockets import WebSocketDisconnect

from services.gateway.core.http_identity import HttpIdentity
from services.gateway.core.notify.sockets import TOO_SLOW, BoundSocket
from services.gateway.inbound.http_port.app import API, DECLARED, StreamCaller, identified_on_stream
from services.gateway.inbound.http_port.authentication import Authentication
from services.gateway.inbound.http_port.refusals import HttpRefusal

NO_STORE = {"Cache-Control": "no-store"}
Recheck = Callable[[HttpIdentity], Awaitable[HttpIdentity | None]]


class Socket(Protocol):
    """A bound socket, with a bell that is rung when there is something to write, or it must end."""

    bound: BoundSocket
    bell: asyncio.Event


class Notify(Protocol):
    """Lets callers in. Raises HttpRefusal, in the order of decision 30."""

    async def open(self, query_id: str, caller: HttpIdentity, recheck: Recheck) -> Socket: ...
    def leave(self, socket: Socket) -> None: ...
    async def result(self, query_id: str, caller: HttpIdentity) -> bytes: ...


class NotifyDoor:
    def __init__(self, notify: Notify, *, unread_timeout_s: float) -> None:
        self._notify, self._unread_timeout_s = notify, unread_timeout_s

    @property
    def router(self) -> APIRouter:
        router = APIRouter(tags=["notify"])

        @router.get(
            f"{API}/q/{{query_id}}/result",
            summary="The rows of a registered query, with the seq and gen that they belong to",
            dependencies=DECLARED,
            responses={"default": {"description": "Refused"}},
        )
        async def result(query_id: str, caller: StreamCaller) -> Response:
            body = await self._notify.result(query_id, caller)
            return Response(body, media_type="application/json", headers=NO_STORE)

        @router.websocket("/ws/{query_id}")
        async def ws(socket: WebSocket, query_id: str) -> None:
            await self._websocket(socket, query_id)

        return router

    async def _websocket(self, client: WebSocket, query_id: str) -> None:
        authentication: Authentication = client.app.state.authentication
        try:
            caller = await identified_on_stream(client)
            socket = await self._notify.open(query_id, caller, authentication.recheck)
        except HttpRefusal as refusal:
            await client.send_denial_response(refusal.response())
            return
        try:
            await client.accept()
            hearing = asyncio.create_task(_heard_out(client))
            telling = asyncio.create_task(self._told(client, socket, query_id))
            try:
                await asyncio.wait([hearing, telling], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (hearing, telling):
                    task.cancel()
                await asyncio.gather(hearing, telling, return_exceptions=True)
        finally:
            self._notify.leave(socket)

    async def _told(self, client: WebSocket, socket: Socket, query_id: str) -> None:
        bound = socket.bound
        welcome = dumps({"type": "subscribed", "query_id": query_id}, separators=(",", ":"), ensure_ascii=False)
        try:
            async with asyncio.timeout(self._unread_timeout_s):
                await client.send_text(welcome)
            while bound.waiting or bound.close_code is None:
                await socket.bell.wait()
                socket.bell.clear()
                while bound.waiting:
                    async with asyncio.timeout(self._unread_timeout_s):
                        await client.send_text(bound.take().decode())
            code = bound.close_code
        except TimeoutError:
            code = TOO_SLOW
        except (WebSocketDisconnect, RuntimeError, OSError):
            return  # it left
        await client.close(code)


async def _heard_out(socket: WebSocket) -> None:
    """Until the client leaves; what it says means nothing here."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
