"""The NOTIFY door's WebSocket: messages of a registered query that go on by themselves, and its rows kept up by them.

    from tidewire.notify_socket import follow

    for rows in follow("http://127.0.0.1:8081", "active_orders", token=token):
        print(rows.seq, rows.rows)

Needs the package `websockets`: pip install "tidewire[notify]". A connection that is lost is opened again with growing,
jittered waits; the rows stay as they were until the result was fetched again.
"""

import json
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import quote

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import connect

from tidewire.errors import TidewireError
from tidewire.notify import NotifyRows, fetch
from tidewire.retry import Retry

OPEN_S = 15.0
# A connection that held for so long was a good one.
GOOD_AFTER_S = 5.0
NO_LONGER_ALLOWED = 4003
REFUSALS = (400, 401, 403, 404)
RETRY = Retry(first_s=0.2, cap_s=10.0)

Token = str | Callable[[], str]


class NotifyRefused(TidewireError):
    """The gateway does not let this token in to this query, now or any more."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"the gateway refused ({status}): {words}")
        self.status = status


def messages(url: str, query_id: str, *, token: Token, retry: Retry = RETRY) -> Iterator[str]:
    """What the socket brings, for ever; each connection begins with the welcome. Raises NotifyRefused."""
    address = f"{_socket_url(url)}/ws/{quote(query_id, safe='')}"
    lost = 0
    while True:
        began = time.monotonic()
        try:
            with connect(address, additional_headers=_bearer(token), open_timeout=OPEN_S) as socket:
                for message in socket:
                    yield message if isinstance(message, str) else message.decode()
        except InvalidStatus as refusal:
            answer = refusal.response
            if answer.status_code in REFUSALS:
                raise NotifyRefused(answer.status_code, _words(answer.body)) from None
        except ConnectionClosed as closed:
            if closed.rcvd is not None and closed.rcvd.code == NO_LONGER_ALLOWED:
                raise NotifyRefused(NO_LONGER_ALLOWED, "the query may no longer be read with this token") from None
        except (InvalidHandshake, OSError, EOFError):
            pass  # nobody is there: come again
        lost = 0 if time.monotonic() - began > GOOD_AFTER_S else lost + 1
        time.sleep(retry.delay_s(lost))


def follow(url: str, query_id: str, *, token: Token, retry: Retry = RETRY) -> Iterator[NotifyRows]:
    """The rows, at first and after each change; the same object each time. Raises NotifyRefused."""
    rows = NotifyRows()
    for message in messages(url, query_id, token=token, retry=retry):
        before = rows.gen, rows.seq
        if rows.take(message):
            _refetch(rows, url, query_id, token, retry)
        if (rows.gen, rows.seq) != before:
            yield rows


def _refetch(rows: NotifyRows, url: str, query_id: str, token: Token, retry: Retry) -> None:
    """Until the rows are those of the last message."""
    attempt = 0
    while True:
        try:
            if not rows.fetched(fetch(url, query_id, token=_text(token))):
                return
        except HTTPError as refusal:
            with refusal:
                if refusal.code in REFUSALS:
                    raise NotifyRefused(refusal.code, _words(refusal.read())) from None
        except (OSError, HTTPException):
            pass  # the gateway is away: the socket will tell so too
        time.sleep(retry.delay_s(attempt))
        attempt += 1


def _socket_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url!r} is not the address of a gateway: it begins with http:// or https://")
    return "ws" + url.rstrip("/").removeprefix("http")


def _text(token: Token) -> str:
    return token if isinstance(token, str) else token()


def _bearer(token: Token) -> dict[str, str]:
    return {"Authorization": f"Bearer {_text(token)}"}


def _words(body: bytes | bytearray | None) -> str:
    try:
        return str(json.loads(body or b"")["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "without a reason"
