"""LISTEN on the NOTIFY door's channel: what PostgreSQL says that this session listens to counts, and nothing else.

The statement itself passes. Behind a LISTEN, UNLISTEN or DISCARD ALL, and outside of transactions, PostgreSQL is asked
on the session's own connection what it listens to, so that transactions, quoting and pooled sessions are PostgreSQL's
affair. What comes between the CommandComplete and the answer is kept, and sent or dropped by it.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from proto.pgwire import backend
from services.gateway.core.principal import ProvenIdentity
from services.gateway.errors import SubscribeRefused


class Hub(Protocol):
    channel: str

    @property
    def place(self) -> int: ...
    async def listen(self, listener: "Listening", since: int) -> None: ...
    def unlisten(self, listener: "Listening") -> None: ...


class Listening:
    """Of one session."""

    def __init__(
        self, hub: Hub, *, most_bytes: int, on_waiting: Callable[[], None], on_overrun: Callable[[], None]
    ) -> None:
        self._hub, self._most_bytes = hub, most_bytes
        self._on_waiting, self._on_overrun = on_waiting, on_overrun
        # It may listen to something else than is known.
        self.is_in_doubt = False
        self.is_listening = False
        self.principal = ("", "")
        self._waiting: list[bytes] = []
        self._bytes = 0

    def doubt(self) -> None:
        """Something was said that may begin or end it, or make the session another role's."""
        self.is_in_doubt = True

    async def look(self, prove: Callable[[], Awaitable[ProvenIdentity]]) -> None:
        """Nothing is under way, and no transaction is open: messages from here on may be this session's."""
        self.is_in_doubt, since = False, self._hub.place
        try:
            identity = await prove()
        except SubscribeRefused:
            self.end()  # nobody knows who it is: it gets nothing
            return
        self.principal = identity.principal.login, identity.principal.role
        if self._hub.channel not in (identity.channels or ()):
            self.end()
        elif not self.is_listening:
            self.is_listening = True
            await self._hub.listen(self, since)

    def end(self) -> None:
        self._hub.unlisten(self)
        self.is_listening, self._waiting, self._bytes = False, [], 0

    def is_ours(self, channel: bytes) -> bool:
        """What others notify on our channel is not passed on."""
        return channel == self._hub.channel.encode()

    def notify(self, channel: str, payload: bytes) -> None:
        message = backend.encode_notification(channel, payload)
        self._waiting.append(message)
        self._bytes += len(message)
        if self._bytes > self._most_bytes:
            self._on_overrun()
        else:
            self._on_waiting()

    def take(self) -> bytes:
        """What waits to be sent."""
        waiting, self._waiting, self._bytes = b"".join(self._waiting), [], 0
        return waiting

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)
