"""The HTTP port: uvicorn on the gateway's own loop, drained when the gateway stops."""

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Generator

import uvicorn
from starlette.types import ASGIApp
from structlog.typing import FilteringBoundLogger

from services.chassis.health import PartProgress
from services.gateway.errors import HttpPortRefused
from services.gateway.inbound.certificate import Certificate
from services.gateway.inbound.http_port.connection import ConnectionLimits, connections_with
from services.gateway.settings import HttpPort as Settings

LOOPBACK = "127.0.0.1"


class Server(uvicorn.Server):
    """uvicorn's server without signal handlers: the process has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class HttpPort:
    """Answers HTTP until it is cancelled; then it takes no more requests and lets those under way end."""

    def __init__(
        self,
        settings: Settings,
        app: ASGIApp,
        *,
        share_port: bool,
        certificate: Certificate | None,
        progress: PartProgress,
        log: FilteringBoundLogger,
    ) -> None:
        self._settings, self._app, self._share_port = settings, app, share_port
        self._certificate, self._progress, self._log = certificate, progress, log

    async def serve(self) -> None:
        """Until cancelled."""
        listening = self._bind()
        host, port = listening.getsockname()[:2]
        server = Server(self._config())
        serving = asyncio.get_running_loop().create_task(server.serve(sockets=[listening]), name="http")
        self._log.info("http_listening", host=host, port=port, tls=self._certificate is not None)
        self._progress.ready()
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self._progress.not_ready("draining")
            server.should_exit = True
            await asyncio.wait([serving], timeout=self._settings.drain_s + 2.0)
            raise
        finally:
            if not serving.done():
                serving.cancel()

    def _bind(self) -> socket.socket:
        host, port = self._host(), self._settings.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host, port), family=family, backlog=1024, reuse_port=self._share_port)
        except (OSError, OverflowError) as error:
            raise HttpPortRefused(host, port, getattr(error, "strerror", None) or str(error)) from error

    def _host(self) -> str:
        """Where to listen: without a way to verify tokens only on this machine (decision 19)."""
        wanted = self._settings.host
        if self._settings.has_secret or is_loopback(wanted):
            return wanted
        self._log.warning(
            "http_port_kept_on_loopback",
            wanted=wanted,
            reason="no secret for tokens: set TIDEWIRE_GATEWAY_HTTP_JWT_SECRET, _JWKS_FILE or _JWKS_URL",
        )
        return LOOPBACK

    def _config(self) -> uvicorn.Config:
        own = self._settings
        limits = ConnectionLimits(
            receive_timeout_s=own.receive_timeout_s,
            unread_timeout_s=own.unread_timeout_s,
            connections=own.connections,
            connections_per_address=own.connections_per_address,
            trusted_proxies=own.trusted_proxies,
        )
        config = uvicorn.Config(
            self._app,
            http=connections_with(limits),  # type: ignore[arg-type]
            ws="websockets-sansio",
            ws_max_size=own.body_bytes,
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,  # ours is in guards.py; uvicorn's would show query strings
            server_header=False,
            proxy_headers=bool(own.trusted_proxies),
            forwarded_allow_ips=list(own.trusted_proxies),
            h11_max_incomplete_event_size=own.header_bytes,
            timeout_keep_alive=own.keep_alive_s,
            timeout_graceful_shutdown=own.drain_s,
        )
        config.load()
        config.ssl = None if self._certificate is None else _renewing(self._certificate)
        return config


def _renewing(certificate: Certificate) -> ssl.SSLContext:
    """The certificate's context, which takes up renewed files with the next connection."""

    def renew(socket: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        socket.context = certificate.context()

    context = certificate.context()
    context.set_alpn_protocols(["http/1.1"])
    context.sni_callback = renew
    return context


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
