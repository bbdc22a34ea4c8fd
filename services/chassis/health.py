"""Health over HTTP: alive while the loop turns, ready while it also does its work."""

import json
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from msgspec import Struct
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest


class Http(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [http] section: where /healthz, /readyz and /metrics are served; port 0 takes a free one."""

    host: str = "127.0.0.1"
    port: int = 0


class AddressRefused(Exception):
    """The address for health and metrics cannot be bound."""

    exit_code, retry = 2, False

    def __init__(self, http: Http, reason: str) -> None:
        super().__init__(
            f"cannot listen on {http.host}:{http.port} ({reason}): "
            "set TIDEWIRE_HTTP_HOST and TIDEWIRE_HTTP_PORT to a free address"
        )
        self.http = http


class PartProgress:
    """What one more part of a process tells about itself: the process is ready only if each of its parts is."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._reason: str | None = "starting"

    def not_ready(self, reason: str) -> None:
        """The part cannot do its work."""
        self._reason = reason

    def ready(self) -> None:
        """The part does its work."""
        self._reason = None

    @property
    def reason(self) -> str | None:
        """Why it is not ready, with its name; None if it is."""
        reason = self._reason
        return None if reason is None else f"{self._name}: {reason}"


class Progress:
    """What a loop tells about itself; the loop writes, the HTTP threads read."""

    def __init__(
        self,
        stale_after_s: float = 10.0,
        *,
        dead_after_s: float | None = None,
        start_within_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`start_within_s`: so long the first turn may take, if that is longer than `dead_after_s`."""
        self._stale_after_s = stale_after_s
        self._dead_after_s = 10 * stale_after_s if dead_after_s is None else dead_after_s
        self._start_within_s = max(start_within_s, self._dead_after_s)
        self._clock = clock
        self._beaten_at = clock()
        self._has_begun = False
        self._reason: str | None = "starting"
        self._parts: tuple[PartProgress, ...] = ()

    def part(self, name: str) -> PartProgress:
        """Another part of the process, whose readiness is asked for beside the loop's own."""
        made = PartProgress(name)
        self._parts = (*self._parts, made)
        return made

    def beat(self) -> None:
        """The loop has completed a turn."""
        self._beaten_at, self._has_begun = self._clock(), True

    def not_ready(self, reason: str) -> None:
        """The loop turns but cannot do its work."""
        self._reason = reason

    def ready(self) -> None:
        """The loop does its work."""
        self._reason = None

    def state(self) -> tuple[bool, str]:
        """Whether the process is ready, and why not."""
        silent_s = self._silent_s()
        if silent_s > self._stale_after_s:
            return False, f"the loop has made no progress for {silent_s:.1f} s"
        reasons = [reason for reason in (self._reason, *(part.reason for part in self._parts)) if reason is not None]
        return (False, "; ".join(reasons)) if reasons else (True, "ready")

    def alive(self) -> tuple[bool, str]:
        """Whether the loop is alive: one that has been silent for so long will not come back."""
        silent_s = self._silent_s()
        if silent_s > self._patience_s:
            return False, f"the loop has made no progress for {silent_s:.1f} s"
        return True, "alive"

    def watch(self, on_dead: Callable[[str], None], *, look_every_s: float = 1.0) -> None:
        """Call back from a thread when the loop is dead.

        Looks without a beat between them are counted, not the time: a process that was stopped and woke up is not dead.
        """

        def look() -> None:
            silent, seen = 0, self._beaten_at
            while silent * look_every_s <= self._patience_s:
                time.sleep(look_every_s)
                silent, seen = (silent + 1 if self._beaten_at == seen else 0), self._beaten_at
            on_dead(f"the loop has made no progress for {self._silent_s():.1f} s")

        threading.Thread(target=look, name="watch", daemon=True).start()

    @property
    def _patience_s(self) -> float:
        return self._dead_after_s if self._has_begun else self._start_within_s

    def _silent_s(self) -> float:
        return self._clock() - self._beaten_at


class HealthServer(ThreadingHTTPServer):
    """Answers probes in daemon threads; `server_port` is the bound port."""

    daemon_threads = True

    def server_bind(self) -> None:
        # HTTPServer.server_bind asks DNS for the host's full name, which can hang for seconds; nobody reads it.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]


class _Ipv6HealthServer(HealthServer):
    address_family = socket.AF_INET6


def serve(http: Http, registry: CollectorRegistry, progress: Progress) -> HealthServer:
    """Start answering /healthz, /readyz and /metrics in the background."""
    server_type = _Ipv6HealthServer if ":" in http.host else HealthServer
    try:
        server = server_type((http.host, http.port), _answers(registry, progress))
    except (OSError, OverflowError) as error:
        raise AddressRefused(http, getattr(error, "strerror", None) or str(error)) from error
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    return server


def _answers(registry: CollectorRegistry, progress: Progress) -> type[BaseHTTPRequestHandler]:
    class Answers(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/healthz":
                    self._verdict(*progress.alive())
                case "/readyz":
                    self._verdict(*progress.state())
                case "/metrics":
                    self._send(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry))
                case _:
                    self._send(HTTPStatus.NOT_FOUND, "text/plain", b"only /healthz, /readyz and /metrics are here\n")

        def log_message(self, format: str, *args: object) -> None:
            """Probes come every few seconds and are not events."""

        def _verdict(self, good: bool, reason: str) -> None:
            status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
            body = json.dumps({"ok": good, "reason": reason}).encode() + b"\n"
            self._send(status, "application/json", body)

        def _send(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Answers
