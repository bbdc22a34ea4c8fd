"""The application behind the HTTP port: its routes, and the shape of its errors."""

from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security.http import HTTPBase
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp
from structlog.typing import FilteringBoundLogger

from services.chassis.metrics import build_version
from services.gateway.core.http_identity import HttpIdentity
from services.gateway.inbound.http_port.authentication import Authentication
from services.gateway.inbound.http_port.envelopes import Envelopes
from services.gateway.inbound.http_port.guards import CALLER, FAILED, AccessLog, Limits, RequestLimits, Site
from services.gateway.inbound.http_port.refusals import HttpRefusal, error_response
from services.gateway.inbound.http_port.topic_errors import TopicErrors
from services.gateway.metrics import HttpMetrics
from services.gateway.settings import HttpPort

API = "/api/v1"
ALLOWED_METHODS = ("GET", "POST", "DELETE", "OPTIONS")
ALLOWED_HEADERS = ("Authorization", "Content-Type", "If-None-Match", "Last-Event-ID")
# Only for the OpenAPI document: authentication itself reads the header, so that all refusals are of one shape.
DECLARED = [
    Depends(HTTPBase(scheme="basic", scheme_name="Basic", auto_error=False)),
    Depends(HTTPBase(scheme="bearer", scheme_name="Bearer", auto_error=False)),
]
# In the OpenAPI document: what else an operation may answer.
REFUSALS: dict[int | str, dict[str, Any]] = {"default": {"description": "Refused"}}


class Door(Protocol):
    """What a door adds to the port."""

    @property
    def router(self) -> APIRouter: ...


async def identified(request: Request) -> HttpIdentity:
    """The dependency by which a door asks who calls; a route without it is open to everybody."""
    authentication: Authentication = request.app.state.authentication
    address = request.client.host if request.client else "unknown"
    caller = await authentication.identify(request.headers.getlist("authorization"), address)
    request.scope["state"][CALLER] = caller.name
    return caller


async def identified_on_stream(connection: HTTPConnection) -> HttpIdentity:
    """The same for streams, whose clients in browsers cannot set headers: a token may also come as ?token=."""
    authentication: Authentication = connection.app.state.authentication
    address = connection.client.host if connection.client else "unknown"
    caller = await authentication.identify(
        connection.headers.getlist("authorization"), address, token=connection.query_params.get("token")
    )
    connection.scope.setdefault("state", {})[CALLER] = caller.name
    return caller


Caller = Annotated[HttpIdentity, Depends(identified)]
StreamCaller = Annotated[HttpIdentity, Depends(identified_on_stream)]


def build_app(
    settings: HttpPort,
    authentication: Authentication,
    *,
    doors: tuple[Door, ...] = (),
    metrics: HttpMetrics,
    log: FilteringBoundLogger,
) -> ASGIApp:
    """The doors inside their guards; the outermost sees every answer."""
    app = FastAPI(
        title="Tidewire gateway",
        version=build_version(),
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # the page would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.authentication = authentication
    app.include_router(_identity_routes())
    for door in doors:
        app.include_router(door.router)
    app.add_exception_handler(HttpRefusal, _on_refusal)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(Exception, _on_fault)
    limits = RequestLimits(
        header_bytes=settings.header_bytes,
        body_bytes=settings.body_bytes,
        receive_timeout_s=settings.receive_timeout_s,
        request_timeout_s=settings.request_timeout_s,
    )
    inner: ASGIApp = Limits(app, limits, log)
    if settings.cors_origins:
        inner = CORSMiddleware(
            inner,
            allow_origins=settings.cors_origins,
            allow_methods=ALLOWED_METHODS,
            allow_headers=ALLOWED_HEADERS,
        )
    return AccessLog(TopicErrors(Envelopes(Site(inner, settings.site_rules))), metrics=metrics, log=log)


def _identity_routes() -> APIRouter:
    router = APIRouter(prefix=API, tags=["identity"], dependencies=DECLARED)

    @router.get("/whoami", summary="Who the caller is")
    async def whoami(caller: Caller) -> dict[str, Any]:
        return {
            "name": caller.name,
            "database_role": caller.database_role,
            "service_role": caller.service_role,
            "method": caller.method,
            "claims": caller.claims,
            "expires_at": caller.expires_at,
        }

    return router


async def _on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpRefusal)
    return error.response()


async def _on_http_error(request: Request, error: Exception) -> Response:
    """What FastAPI refuses itself: no such path, no such method, a body that is no JSON."""
    assert isinstance(error, HTTPException)
    answer = error_response(error.status_code, str(error.detail))
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


async def _on_fault(request: Request, error: Exception) -> Response:
    """Answers; the error itself is raised again and logged by the guard around the application."""
    return error_response(500, FAILED, code="internal")


async def _on_invalid(request: Request, error: Exception) -> Response:
    """The places that are wrong, without the values that stood there."""
    assert isinstance(error, RequestValidationError)
    places = [{"at": [str(part) for part in each["loc"]], "problem": each["msg"]} for each in error.errors()]
    return error_response(400, "the request does not have the form that is expected", details={"problems": places})
