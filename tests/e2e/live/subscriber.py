"""A client with live queries: it reads, or stops reading; pauses; loses its connection and comes back."""

import contextlib
import itertools
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

import psycopg

from proto.pgwire.framing import Frame
from proto.pgwire.live import (
    BACKEND_TYPES,
    NO_SUBSCRIPTION,
    PARAMETER_STATUS,
    Ack,
    FromGateway,
    Pause,
    Refused,
    Resume,
    Unsubscribe,
    decode_from_gateway,
)
from proto.positions import parse_lsn
from tests.e2e.live.subscription import Broken, Phase, Subscription
from tests.fixtures.wire import READY, WireClient

# More than the kernel takes in for a client that does not read.
LARGE_ROWS = 30_000
LARGE = f"SELECT repeat('x', 1000) FROM generate_series(1, {LARGE_ROWS})"
COME_AGAIN = re.compile(r"Rate limited: retry after (\d+)ms|Execution error: no result within (\d+) s")
TRY_AGAIN_S = 0.3
_names = itertools.count(1)


class Subscriber:
    """One connection; `commits` tells how many commits there were so far."""

    def __init__(
        self, dsn: Callable[[], str], commits: Callable[[], int], settings: Mapping[str, str] | None = None
    ) -> None:
        self.name = f"client {next(_names)}"
        self._dsn, self._commits, self._settings = dsn, commits, settings or {}
        self.subscriptions: list[Subscription] = []
        self.reading = True
        self.connections = 0
        # LSNs that closed a batch, in the order in which they came.
        self.batches = 0
        self._wire: WireClient | None = None
        self._not_before_s = 0.0
        self._live: dict[UUID, Subscription] = {}
        self._asking: Subscription | None = None
        self._batch: Subscription | None = None
        # What PostgreSQL owes us a ReadyForQuery for: how many rows must come before it, and what it means.
        self._owed: deque[tuple[int, Callable[[], object]]] = deque()
        self._rows = 0

    @property
    def connected(self) -> bool:
        return self._wire is not None

    @property
    def has_nothing_to_ask(self) -> bool:
        """Every subscription was answered."""
        return self.connected and all(one.phase not in (Phase.WANTED, Phase.ASKED) for one in self.subscriptions)

    def fileno(self) -> int:
        assert self._wire is not None
        return self._wire.fileno()

    # What it does.

    def want(self, *subscriptions: Subscription) -> None:
        self.subscriptions += subscriptions

    def turn(self) -> None:
        """Connect if need be, and ask for what is not subscribed yet: one at a time, since an Ack names no query."""
        now_s = time.monotonic()
        if now_s < self._not_before_s:
            return
        if self._wire is None:
            self._connect(now_s)
        wanted = next((one for one in self.subscriptions if one.phase is Phase.WANTED), None)
        if self._wire is not None and self._asking is None and wanted is not None and self.reading:
            wanted.asked(self._commits())
            self._asking = wanted
            self._send(wanted.message)

    def read(self) -> None:
        """Take in what is there."""
        if self._wire is None:
            return
        try:
            frames = self._wire.arrived()
        except ConnectionError:
            self._lost()
            return
        for frame in frames:
            self._frame(frame)

    def pause(self, subscription: Subscription) -> None:
        """From the next answer of PostgreSQL on it is silent: that was sent after the pause had begun."""
        assert subscription.id is not None
        subscription.paused = True
        self._send(Pause(subscription.id))
        self._query("SELECT 'paused'", 1, lambda: self._silent(subscription))

    def resume(self, subscription: Subscription) -> None:
        assert subscription.id is not None
        subscription.paused = subscription.is_silent = False
        subscription.resumed_at = self._commits()
        self._send(Resume(subscription.id))

    def begin_anew(self, subscription: Subscription) -> None:
        """Unsubscribe and subscribe again; what is still under way for the old id is not heeded."""
        assert subscription.id is not None
        self._send(Unsubscribe(subscription.id))
        gone = subscription.id
        self._query("SELECT 'unsubscribed'", 1, lambda: self._live.pop(gone, None))
        self._live[gone] = Subscription(subscription.question, subscription.at, subscription.key)
        self._live[gone].phase = Phase.OVER
        subscription.want()

    def stop_reading(self) -> None:
        """A large result is asked for and left lying, so that nothing else gets through either."""
        self.reading = False
        self._query(LARGE, LARGE_ROWS, lambda: None)

    def read_little(self, receive_buffer_bytes: int) -> None:
        assert self._wire is not None
        self._wire.read_little(receive_buffer_bytes)

    @property
    def awaits_answers(self) -> bool:
        """PostgreSQL owes it something."""
        return bool(self._owed)

    def read_again(self) -> None:
        self.reading = True

    def leave(self, *, politely: bool) -> None:
        """Close; it comes back by itself if `turn` is called."""
        if self._wire is not None:
            if not politely:
                with contextlib.suppress(OSError):  # the other side may have left first
                    self._wire.hang_up()
            self._wire.close()
        self._forget()

    # What it is told.

    def _frame(self, frame: Frame) -> None:
        if frame.type in BACKEND_TYPES:
            self._message(decode_from_gateway(frame))
        elif frame.type == PARAMETER_STATUS and frame.body.startswith(b"tidewire.lsn\0"):
            self._close_batch(frame.body.split(b"\0")[1].decode())
        elif frame.type == READY:
            self._answered()
        elif frame.type == ord("D"):
            self._rows += 1
        elif frame.type == ord("E") and b"\0C57P01\0" not in frame.body:
            raise Broken(f"{self.name}: PostgreSQL says {frame.body!r}")

    def _message(self, message: FromGateway) -> None:
        if isinstance(message, Ack):
            self._acknowledged(message)
        elif isinstance(message, Refused):
            self._refused(message)
        else:
            one = self._live.get(message.subscription)
            if one is None:
                raise Broken(f"{self.name}: data before the Ack of {message.subscription}")
            if one.phase is Phase.OVER:
                return  # unsubscribed a moment ago
            if self._batch not in (None, one):
                raise Broken(f"{self.name}: a batch of {one.question.sql} inside one of {self._batch.question.sql}")
            self._batch = one
            one.take(message)

    def _acknowledged(self, message: Ack) -> None:
        if self._asking is None:
            raise Broken(f"{self.name}: {message}, and nothing was asked for")
        self._asking.acknowledged(message.subscription)
        self._live[message.subscription] = self._asking
        self._asking = None

    def _refused(self, message: Refused) -> None:
        one = self._live.get(message.subscription)
        if one is None:
            one, self._asking = self._asking, None
        if one is None:
            raise Broken(f"{self.name}: {message}, and nothing was asked for")
        if again := COME_AGAIN.fullmatch(message.message):
            one.want()
            self._not_before_s = time.monotonic() + int(again[1] or 0) / 1000
        elif one.phase is not Phase.OVER:
            if message.subscription == NO_SUBSCRIPTION and one.id is not None:
                raise Broken(f"{self.name}: {message} to one that has an id")
            one.refused(message.message)

    def _close_batch(self, lsn: str) -> None:
        one, self._batch = self._batch, None
        self.batches += 1
        if one is not None:
            one.reached(parse_lsn(lsn))

    def _silent(self, subscription: Subscription) -> None:
        subscription.is_silent = subscription.paused

    def _answered(self) -> None:
        (expected, ready), found, self._rows = self._owed.popleft(), self._rows, 0
        if found != expected:
            raise Broken(f"{self.name}: PostgreSQL answered {found} rows instead of {expected}")
        ready()

    # The connection.

    def _query(self, sql: str, rows: int, ready: Callable[[], object]) -> None:
        self._owed.append((rows, ready))
        self._send(("Q", sql.encode() + b"\0"))

    def _send(self, *messages: object) -> None:
        if self._wire is not None:
            try:
                self._wire.send(*messages)
            except ConnectionError:
                self._lost()

    def _connect(self, now_s: float) -> None:
        options = " ".join(f"-c {name}={_escaped(value)}" for name, value in self._options())
        try:
            self._wire = WireClient(psycopg.conninfo.make_conninfo(self._dsn(), options=options, connect_timeout=5))
        except psycopg.OperationalError:
            self._not_before_s = now_s + TRY_AGAIN_S
            return
        self.connections += 1

    def _options(self) -> Iterable[tuple[str, str]]:
        return {**self._settings, "tidewire.lsn": "on"}.items()

    def _lost(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._forget()

    def _forget(self) -> None:
        self._wire, self._asking, self._batch, self.reading = None, None, None, True
        self._rows = 0
        self._live.clear()
        self._owed.clear()
        for one in self.subscriptions:
            if one.phase is not Phase.OVER:
                one.want()


def _escaped(value: str) -> str:
    return re.sub(r"([\\ ])", r"\\\1", value)
