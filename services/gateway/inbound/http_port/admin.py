"""The administrators' page at `/admin` and the API behind it at `/api/v1/admin` (S43): for the roles dba and system.

The page's files are open to everybody and hold nothing; it asks with the credentials that were typed into it, in the
header that all doors read. It keeps them in memory alone: there is no cookie that another site could ride on, and
nothing that a later user of the browser could find.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from services.gateway.core.admin import MOST_PAGE, STATES
from services.gateway.core.http_identity import HttpIdentity
from services.gateway.inbound.http_port.app import API, DECLARED, REFUSALS, Caller
from services.gateway.inbound.http_port.authentication import Authentication
from services.gateway.inbound.http_port.refusals import HttpRefusal
from services.gateway.inbound.http_port.rpc import refusing

FOLDER = Path(__file__).parent / "admin_page"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
API_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": POLICY}
OPERATORS = ("system", "dba")
ONLY_OPERATORS = "the administrators' page is for the service roles dba and system"
EVERY_S = 1.0
# A caller's credentials are looked at again this often.
RECHECK_TURNS = 5
LONGEST_SEARCH = 200


class AdminView(Protocol):
    """What the page shows; raises RpcRefused and CursorsUnavailable."""

    @property
    def samples(self) -> list[dict[str, float]]: ...

    async def overview(self) -> dict[str, Any]: ...

    def queries(self) -> dict[str, Any]: ...

    async def subscriptions(self, *, search: str, state: str, door: str, offset: int, limit: int) -> dict[str, Any]: ...

    async def subscription(self, sub_id: str, caller: HttpIdentity) -> dict[str, Any]: ...

    async def tables(self) -> dict[str, Any]: ...


class AdminDoor:
    def __init__(self, view: AdminView) -> None:
        self._view, self._files = view, page_files()

    @property
    def router(self) -> APIRouter:
        router = APIRouter()
        router.include_router(self._api())

        @router.get("/admin", include_in_schema=False)
        @router.get("/admin/", include_in_schema=False)
        async def page(request: Request) -> Response:
            return self._file("index.html", request)

        @router.get("/admin/{name:path}", include_in_schema=False)
        async def file(name: str, request: Request) -> Response:
            return self._file(name, request)

        return router

    def _api(self) -> APIRouter:
        router = APIRouter(prefix=f"{API}/admin", tags=["admin"], dependencies=DECLARED, responses=REFUSALS)

        @router.get("/overview", summary="Services, the road of a commit, statistics, and ten minutes of figures")
        async def overview(caller: Caller) -> Response:
            _refuse_others(caller)
            return _json({**await self._view.overview(), "samples": self._view.samples, "caller": caller.name})

        @router.get("/queries", summary="The live queries that workers keep")
        async def queries(caller: Caller) -> Response:
            _refuse_others(caller)
            return _json(self._view.queries())

        @router.get("/subscriptions", summary="Subscriptions of every door, the worst first")
        async def subscriptions(
            caller: Caller,
            search: str = Query("", max_length=LONGEST_SEARCH),
            state: str = Query("", pattern=f"^({'|'.join(STATES)})?$"),
            door: str = Query("", pattern="^(cdc|binary)?$"),
            offset: int = Query(0, ge=0, le=10_000_000),
            limit: int = Query(100, ge=1, le=MOST_PAGE),
        ) -> Response:
            _refuse_others(caller)
            found = await self._view.subscriptions(search=search, state=state, door=door, offset=offset, limit=limit)
            return _json(found)

        @router.get("/subscriptions/{sub_id}", summary="One subscription of the CDC door")
        async def subscription(sub_id: str, caller: Caller) -> Response:
            _refuse_others(caller)
            with refusing():
                return _json(await self._view.subscription(sub_id, caller))

        @router.get("/tables", summary="Tables: identity, cost, replica")
        async def tables(caller: Caller) -> Response:
            _refuse_others(caller)
            with refusing():
                return _json(await self._view.tables())

        @router.get("/stream", summary="The overview each second, and one subscription, by SSE")
        async def stream(
            request: Request, caller: Caller, sub_id: str | None = Query(None, max_length=LONGEST_SEARCH)
        ) -> Response:
            _refuse_others(caller)
            if sub_id is not None:
                with refusing():
                    await self._view.subscription(sub_id, caller)
            events = self._events(caller, sub_id, request.app.state.authentication)
            headers = {**API_HEADERS, "X-Accel-Buffering": "no"}
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)

        return router

    async def _events(
        self, caller: HttpIdentity, sub_id: str | None, authentication: Authentication
    ) -> AsyncIterator[bytes]:
        """Until the client leaves, its credentials end, or the subscription is closed."""
        turn = 0
        while True:
            if turn and turn % RECHECK_TURNS == 0:
                now = await authentication.recheck(caller)
                if now is None or now.service_role not in OPERATORS:
                    yield _event("error", {"code": "unauthorized", "message": "the credentials hold no longer"})
                    return
                caller = now
            yield _event("overview", await self._view.overview())
            if sub_id is not None:
                try:
                    with refusing():
                        shown = await self._view.subscription(sub_id, caller)
                    yield _event("subscription", shown)
                except HttpRefusal as refusal:
                    yield _event("error", {"code": refusal.code, "message": refusal.message})
                    if refusal.status_code == 404:
                        return
            turn += 1
            await asyncio.sleep(EVERY_S)

    def _file(self, name: str, request: Request) -> Response:
        found = self._files.get(name)
        if found is None:
            raise HttpRefusal(404, "there is no such file of the page")
        content, kind, etag = found
        headers = {**PAGE_HEADERS, "ETag": etag}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=kind)


def page_files() -> dict[str, tuple[bytes, str, str]]:
    """The page's files by their path, read once: nothing that a request names is ever looked for on the disk."""
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.is_file() and path.suffix in TYPES:
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path.relative_to(FOLDER).as_posix()] = (content, TYPES[path.suffix], etag)
    return found


def _refuse_others(caller: HttpIdentity) -> None:
    if caller.service_role not in OPERATORS:
        raise HttpRefusal(403, ONLY_OPERATORS)


def _json(shown: Any) -> Response:
    return Response(msgspec.json.encode(shown), media_type="application/json", headers=API_HEADERS)


def _event(name: str, shown: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(shown))
