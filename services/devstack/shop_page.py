"""The shop's live table as a page on loopback, which passes on to the gateway what the page may ask, and nothing else.

The token stays here: whoever reaches the page sees the shop's table and can do nothing with the gateway besides.
"""

import http.client
import json
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from services.devstack.shop_feed import Feed

FILES = Path(__file__).parent / "page"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'"
CHUNK = 65536
PASSED_ON = ("Accept", "Last-Event-ID", "If-None-Match")
UPGRADE = ("Upgrade", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Origin", "Host")


class ShopPage(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, feed: Feed, gateway: str, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        parts = urlsplit(gateway)
        self.feed, self.token = feed, token
        self.gateway = (parts.hostname or "127.0.0.1", parts.port or 80)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that left; there is nobody to tell."""


class _Request(BaseHTTPRequestHandler):
    server: ShopPage
    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if self.headers.get("Host") not in (self.server.address, f"localhost:{self.server.server_port}"):
            self.send_error(421, "this page is on loopback only")  # a name that was bound to this address
        elif self.headers.get("Origin", f"http://{self.headers['Host']}") != f"http://{self.headers['Host']}":
            self.send_error(403, "pages of other sites may not ask")
        elif path in self.server.feed.paths:
            self._tunnel(path) if "Sec-WebSocket-Key" in self.headers else self._pass_on(path)
        elif path == "/feed.json":
            self._answer("application/json", json.dumps(self.server.feed.described()).encode())
        else:
            self._file("index.html" if path == "/" else path[1:])

    def log_message(self, format: str, *arguments: object) -> None:
        """The demo's screen is for the shop."""

    def _file(self, name: str) -> None:
        if name not in {path.name for path in FILES.iterdir()}:
            self.send_error(404)
            return
        path = FILES / name
        self._answer(f"{TYPES[path.suffix]}; charset=utf-8", path.read_bytes())

    def _answer(self, content_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def _pass_on(self, path: str) -> None:
        """One request and its answer, as it comes: an SSE stream has no end."""
        gateway = http.client.HTTPConnection(*self.server.gateway, timeout=60)
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        try:
            gateway.request("GET", path, headers={**headers, "Authorization": f"Bearer {self.server.token}"})
            answer = gateway.getresponse()
            self.send_response(answer.status)
            for name in ("Content-Type", "ETag", "Retry-After"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.end_headers()
            while piece := answer.read1(CHUNK):
                self.wfile.write(piece)
                self.wfile.flush()
        except (OSError, http.client.HTTPException):
            self.close_connection = True  # the client comes again
        finally:
            gateway.close()

    def _tunnel(self, path: str) -> None:
        """A WebSocket: its head with our token, then bytes in both directions."""
        head = [f"GET {path} HTTP/1.1", "Connection: Upgrade", f"Authorization: Bearer {self.server.token}"]
        head += [f"{name}: {self.headers[name]}" for name in UPGRADE if name in self.headers]
        with socket.create_connection(self.server.gateway, timeout=10) as gateway:
            gateway.sendall("\r\n".join([*head, "", ""]).encode("latin-1"))
            ways = {gateway: self.connection, self.connection: gateway}
            while True:
                for ready in select.select(list(ways), [], [])[0]:
                    piece = ready.recv(CHUNK)
                    if not piece:
                        return
                    ways[ready].sendall(piece)


@contextmanager
def serve(feed: Feed, gateway: str, token: str) -> Iterator[str]:
    """The page's address, while it is served."""
    page = ShopPage(feed, gateway, token)
    Thread(target=page.serve_forever, name="shop page", daemon=True).start()
    try:
        yield f"http://{page.address}/"
    finally:
        page.shutdown()
        page.server_close()
