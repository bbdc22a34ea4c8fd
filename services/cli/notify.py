"""`tidewire notify tail`: the messages of a registered query, one a line."""

import json
import sys
from urllib.parse import quote

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

OPEN_S = 10.0


def tail(url: str, query_id: str, token: str | None, *, limit: int | None = None) -> int:
    """Print what a WebSocket client gets, welcome included, until it ends; the exit status."""
    address = f"{url.rstrip('/').replace('http', 'ws', 1)}/ws/{quote(query_id, safe='')}"
    headers = {"Authorization": f"Bearer {token}"} if token else None
    try:
        with connect(address, additional_headers=headers, open_timeout=OPEN_S) as socket:
            for count, message in enumerate(socket, 1):
                print(message if isinstance(message, str) else message.decode(), flush=True)
                if count == limit:
                    return 0
    except InvalidStatus as refusal:
        print(_words(refusal.response.status_code, refusal.response.body), file=sys.stderr)
        return 2
    except ConnectionClosed as closed:
        code = closed.rcvd.code if closed.rcvd else 1006
        print(f"the gateway ended the stream ({code}): run it again", file=sys.stderr)
        return 1
    return 0


def _words(status: int, body: bytes | bytearray | None) -> str:
    try:
        return f"refused ({status}): {json.loads(body or b'')['error']['message']}"
    except (ValueError, KeyError, TypeError):
        return f"refused ({status})"
