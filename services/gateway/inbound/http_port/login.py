"""`/v1/api/auth/{login,refresh}`: tokens for clients that log in once (decision 26); PostgreSQL judges the password."""

import base64
import time
from datetime import UTC, datetime
from typing import Any

import jwt
import msgspec
import orjson
from fastapi import APIRouter, Request
from msgspec import Struct
from starlette.responses import Response

from services.gateway.core.http_identity import HttpIdentity
from services.gateway.inbound.http_port.app import REFUSALS
from services.gateway.inbound.http_port.authentication import REFUSED, Authentication
from services.gateway.inbound.http_port.refusals import HttpRefusal
from services.gateway.inbound.http_port.tokens import HMAC
from services.gateway.settings import HttpPort, Topics

# A token with this audience opens nothing else: no door is asked for by this name.
REFRESH = "tidewire refresh"
MOST_USER_LETTERS, MOST_PASSWORD_LETTERS = 128, 256
NO_SECRET = "this gateway makes no tokens: set TIDEWIRE_GATEWAY_HTTP_JWT_SECRET"
# PostgreSQL does not remember when a role was made.
UNKNOWN_TIME = "1970-01-01T00:00:00Z"


class LoginBody(Struct, forbid_unknown_fields=True):
    password: str
    user: str | None = None
    username: str | None = None


class LoginDoor:
    def __init__(self, http: HttpPort, topics: Topics) -> None:
        self._http, self._topics = http, topics

    @property
    def router(self) -> APIRouter:
        router = APIRouter(prefix="/v1/api", tags=["topics"], responses=REFUSALS)

        @router.post("/auth/login", summary="Tokens for a PostgreSQL login")
        async def login(request: Request) -> Response:
            return await self._login(request)

        @router.post("/auth/refresh", summary="New tokens for a refresh token")
        async def refresh(request: Request) -> Response:
            return await self._refresh(request)

        @router.get("/healthcheck", summary="That the port answers")
        async def healthcheck() -> dict[str, str]:
            return {"status": "healthy"}

        return router

    async def _login(self, request: Request) -> Response:
        try:
            body = msgspec.json.decode(await request.body(), type=LoginBody)
        except msgspec.DecodeError as error:
            raise HttpRefusal(422, f"the body is not what is expected: {error}") from None
        user = body.user if body.user is not None else body.username
        if user is None or (body.user is not None and body.username is not None):
            raise HttpRefusal(422, "name the login by `user` or by `username`")
        if ":" in user or len(user) > MOST_USER_LETTERS or len(body.password) > MOST_PASSWORD_LETTERS:
            raise HttpRefusal(401, REFUSED)
        authentication: Authentication = request.app.state.authentication
        address = request.client.host if request.client else "unknown"
        basic = "Basic " + base64.b64encode(f"{user}:{body.password}".encode(errors="replace")).decode()
        return self._answer(await authentication.identify([basic], address))

    async def _refresh(self, request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        secret = self._secret()
        if scheme.lower() != "bearer" or len(token) > self._http.jwt_bytes:
            raise HttpRefusal(401, REFUSED)
        try:
            options: Any = {"require": ["exp", "sub"]}
            claims = jwt.decode(token.strip(), secret, algorithms=[HMAC], audience=REFRESH, options=options)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise HttpRefusal(401, REFUSED) from None
        authentication: Authentication = request.app.state.authentication
        name = str(claims["sub"])
        former = HttpIdentity(name=name, database_role=name, service_role="user", method="basic")
        caller = await authentication.recheck(former)
        if caller is None:
            raise HttpRefusal(401, REFUSED)
        return self._answer(caller)

    def _answer(self, caller: HttpIdentity) -> Response:
        now_s = time.time()
        ends_s = now_s + self._topics.access_token_secs
        refresh_ends_s = now_s + self._topics.refresh_token_secs
        if caller.expires_at is not None:
            ends_s, refresh_ends_s = min(ends_s, caller.expires_at), min(refresh_ends_s, caller.expires_at)
        own = self._http
        access = {
            own.jwt_service_role_claim: caller.service_role,
            own.jwt_database_role_claim: caller.database_role,
            **({} if own.jwt_issuer is None else {"iss": own.jwt_issuer}),
            **({} if not own.jwt_audience else {"aud": own.jwt_audience[0]}),
        }
        answer = {
            "user": {
                "id": caller.name,
                "name": caller.name,
                "role": caller.service_role,
                "created_at": UNKNOWN_TIME,
                "updated_at": UNKNOWN_TIME,
            },
            "admin_ui_access": False,
            "expires_at": _moment(ends_s),
            "access_token": self._token(caller.name, ends_s, access),
            "refresh_token": self._token(caller.name, refresh_ends_s, {"aud": REFRESH}),
            "refresh_expires_at": _moment(refresh_ends_s),
        }
        return Response(orjson.dumps(answer), media_type="application/json", headers={"Cache-Control": "no-store"})

    def _token(self, name: str, ends_s: float, claims: dict[str, Any]) -> str:
        return jwt.encode({**claims, "sub": name, "exp": int(ends_s)}, self._secret(), algorithm=HMAC)

    def _secret(self) -> str:
        if not self._http.jwt_secret:
            raise HttpRefusal(503, NO_SECRET)
        return self._http.jwt_secret


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
