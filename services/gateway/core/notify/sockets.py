"""The sockets of one gateway, by query: what each of them gets of a message, and which of them end."""

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct

from proto.tidewire.v1.notifications_pb2 import (
    NOTIFICATION_KIND_FAILED,
    NOTIFICATION_KIND_RESUBSCRIBED,
    Notification,
)

# WebSocket's close codes (decision 30).
REREGISTERED, FORBIDDEN, RESTARTS, TOO_SLOW = 4001, 4003, 1012, 1013
# Why a query has no result that no waiting mends: rights, and what it names.
_LASTING = ("42", "3F")
# So many queries' gens are remembered: a socket is bound within moments of its being let in.
MOST_GENS = 10_000


class SocketLimits(Struct, frozen=True):
    """What may wait to be read by one socket."""

    messages: int = 256
    bytes: int = 1024 * 1024


class BoundSocket:
    """One socket, bound to the gen that was committed when it came (P28)."""

    def __init__(self, query_id: str, gen: int, limits: SocketLimits) -> None:
        self.query_id, self.gen, self._limits = query_id, gen, limits
        self.waiting: deque[bytes] = deque()
        self._bytes = 0
        self.close_code: int | None = None

    def offer(self, payload: bytes) -> None:
        if self.close_code is not None:
            return
        if len(self.waiting) >= self._limits.messages or self._bytes + len(payload) > self._limits.bytes:
            self.close(TOO_SLOW)
            return
        self.waiting.append(payload)
        self._bytes += len(payload)

    def take(self) -> bytes:
        payload = self.waiting.popleft()
        self._bytes -= len(payload)
        return payload

    def close(self, code: int) -> None:
        """Nothing more is sent; the first reason counts."""
        if self.close_code is None:
            self.close_code = code
            if code != RESTARTS:
                self.waiting.clear()


class Sockets:
    def __init__(self, limits: SocketLimits) -> None:
        self._limits = limits
        self._by_query: dict[str, set[BoundSocket]] = {}
        # The latest gen that the topic has shown of a query; those that were told of last.
        self._gens: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_query.values()))

    def __iter__(self) -> Iterator[BoundSocket]:
        return (socket for sockets in list(self._by_query.values()) for socket in list(sockets))

    @property
    def queries(self) -> list[str]:
        return list(self._by_query)

    def bind(self, query_id: str, gen: int) -> BoundSocket:
        """A new socket; one whose gen was overtaken while it was being let in ends at once."""
        socket = BoundSocket(query_id, gen, self._limits)
        self._by_query.setdefault(query_id, set()).add(socket)
        if self._gens.get(query_id, 0) > gen:
            socket.close(REREGISTERED)
        return socket

    def leave(self, socket: BoundSocket) -> None:
        sockets = self._by_query.get(socket.query_id, set())
        sockets.discard(socket)
        if not sockets:
            self._by_query.pop(socket.query_id, None)

    def told(self, message: Notification) -> list[BoundSocket]:
        """Offer a message to whom it is for; the sockets that have something to do now."""
        self._remember(message.query_id, message.gen)
        concerned = list(self._by_query.get(message.query_id, ()))
        for socket in concerned:
            if socket.gen < message.gen:
                socket.close(REREGISTERED)
            elif socket.gen != message.gen or message.kind == NOTIFICATION_KIND_RESUBSCRIBED:
                continue
            elif message.kind == NOTIFICATION_KIND_FAILED:
                if message.sqlstate.startswith(_LASTING):
                    socket.close(FORBIDDEN)
            elif message.payload:
                socket.offer(message.payload)
        return concerned

    def committed(self, query_id: str, gen: int | None) -> list[BoundSocket]:
        """What PostgreSQL says is registered now; None: nothing."""
        stale = [socket for socket in self._by_query.get(query_id, ()) if socket.gen != gen]
        for socket in stale:
            if gen is None or socket.gen < gen:
                socket.close(REREGISTERED)
        return stale

    def _remember(self, query_id: str, gen: int) -> None:
        """The gen that was told; the query that was told of least recently is forgotten where there are too many."""
        known = self._gens.pop(query_id, 0)
        self._gens[query_id] = max(known, gen)
        if len(self._gens) > MOST_GENS:
            del self._gens[next(iter(self._gens))]

    def close_all(self, code: int, sockets: Iterable[BoundSocket] | None = None) -> None:
        for socket in self if sockets is None else sockets:
            socket.close(code)
