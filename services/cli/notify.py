"""`tidewire notify tail`: the messages of a registered query, one a line."""

import sys

from tidewire.notify_socket import NotifyRefused, messages


def tail(url: str, query_id: str, token: str, *, limit: int | None = None) -> int:
    """Print what a WebSocket client gets, the welcome of each connection included; the exit status."""
    try:
        for count, message in enumerate(messages(url, query_id, token=token), 1):
            print(message, flush=True)
            if count == limit:
                break
    except NotifyRefused as refusal:
        print(refusal, file=sys.stderr)
        return 2
    return 0
