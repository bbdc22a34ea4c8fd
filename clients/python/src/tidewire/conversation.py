"""One connection after log-in, without its socket: bytes in, bytes out, and what they mean for the feeds."""

from collections import deque
from dataclasses import dataclass, field
from uuid import UUID

from tidewire import messages, ordinary
from tidewire.errors import ConnectionFailed, ProtocolViolated, ServerError, TidewireError
from tidewire.feed import Feed
from tidewire.frames import Frame, Framer
from tidewire.messages import Ack, Data, Failed, Pause, Resume, Unsubscribe, Update
from tidewire.ordinary import Column

LSN = "tidewire.lsn"
IDLE = b"I"
REMEMBERED = 1000


@dataclass(slots=True, eq=False)
class Exchange:
    """Ordinary SQL and its answer: of several statements the rows of the last that has any."""

    request: bytes
    columns: tuple[Column, ...] = ()
    rows: list[tuple[bytes | None, ...]] = field(default_factory=list)
    error: TidewireError | None = None
    done: bool = False


class Conversation:
    """Only one Subscribe is under way at a time: an Ack and a refusal do not say which one they answer."""

    def __init__(self) -> None:
        self.transaction = IDLE
        self._framer = Framer()
        self._outgoing = bytearray()
        self._waiting: deque[Feed] = deque()
        self._asked: Feed | None = None
        self._feeds: dict[UUID, Feed] = {}
        # What was unsubscribed may still be spoken of for a moment.
        self._left: deque[UUID] = deque(maxlen=REMEMBERED)
        self._exchange: Exchange | None = None
        self._to_retry: list[tuple[Feed, float]] = []
        # Whether this gateway tells LSNs, and the feeds that are inside a batch.
        self._tells_lsn = False
        self._touched: set[Feed] = set()

    def outgoing(self) -> bytes:
        """What to send now."""
        data = bytes(self._outgoing)
        self._outgoing.clear()
        return data

    def to_retry(self) -> list[tuple[Feed, float]]:
        """Feeds to subscribe again, each after so many seconds; tells them once."""
        found, self._to_retry = self._to_retry, []
        return found

    def subscribe(self, feed: Feed) -> None:
        if feed is not self._asked and feed not in self._waiting and self.id_of(feed) is None:
            self._waiting.append(feed)
            self._ask_next()

    def leave(self, feed: Feed) -> None:
        """No more of it; what is still on the way is ignored."""
        if feed in self._waiting:
            self._waiting.remove(feed)
        found = self.id_of(feed)
        if found is not None:
            self._retire(found)

    def renew(self, feed: Feed) -> None:
        """Ask for the whole result anew."""
        self.leave(feed)
        feed.wants_renewal = False
        self.subscribe(feed)

    def pause(self, feed: Feed) -> None:
        found = self.id_of(feed)
        if found is not None:
            self._send(messages.encode(Pause(found)))

    def resume(self, feed: Feed) -> None:
        found = self.id_of(feed)
        if found is not None:
            self._send(messages.encode(Resume(found)))

    @property
    def busy(self) -> bool:
        """Whether ordinary SQL is still being answered, be it that its asker has given up."""
        return self._exchange is not None

    def ask(self, exchange: Exchange) -> None:
        """Ordinary SQL; one at a time."""
        assert not self.busy
        self._exchange = exchange
        self._send(exchange.request)

    def id_of(self, feed: Feed) -> UUID | None:
        return next((found for found, known in self._feeds.items() if known is feed), None)

    def receive(self, data: bytes) -> None:
        self._framer.feed(data)
        for found in self._framer.frames():
            if found.type in messages.FROM_GATEWAY:
                self._receive_live(messages.decode(found), len(found.body))
            else:
                self._receive_ordinary(found)

    def end(self, because: str) -> None:
        """The connection is gone."""
        for feed in (*self._feeds.values(), *self._waiting, *([self._asked] if self._asked else ())):
            feed.lose(because)
        if self._exchange is not None:
            self._exchange.error = self._exchange.error or ConnectionFailed(
                f"{because}: whether the statement took effect is not known"
            )
            self._exchange.done = True

    def _send(self, data: bytes) -> None:
        self._outgoing += data

    def _ask_next(self) -> None:
        if self._asked is None and self._waiting:
            self._asked = self._waiting.popleft()
            self._send(messages.encode(self._asked.request))

    def _retire(self, subscription: UUID) -> None:
        feed = self._feeds.pop(subscription)
        self._touched.discard(feed)
        self._left.append(subscription)
        self._send(messages.encode(Unsubscribe(subscription)))

    def _receive_live(self, message: messages.FromGateway, size_bytes: int) -> None:
        match message:
            case Ack():
                self._acknowledged(message)
            case Failed():
                self._failed(message)
            case _ if message.subscription in self._feeds:
                feed = self._feeds[message.subscription]
                feed.take(message, size_bytes, in_batch=self._tells_lsn)
                self._touched.add(feed)
                if feed.paused and isinstance(message, Data) and message.update is Update.FULL:
                    self.pause(feed)  # a subscription made anew is not paused yet
                if feed.wants_renewal:
                    self.renew(feed)

    def _acknowledged(self, ack: Ack) -> None:
        feed, self._asked = self._asked, None
        if feed is None:
            raise ProtocolViolated("the gateway acknowledges a subscription that nobody asked for")
        self._feeds[ack.subscription] = feed
        feed.acknowledge(ack.tables, ack.key)
        if feed.closed:
            self._retire(ack.subscription)
        self._ask_next()

    def _failed(self, failed: Failed) -> None:
        if failed.subscription in self._left:
            return
        feed = self._feeds.pop(failed.subscription, None)
        if feed is None:
            feed, self._asked = self._asked, None
        if feed is not None and not feed.closed:
            self._touched.discard(feed)
            delay_s = feed.refuse(failed.words)
            if delay_s is not None:
                self._to_retry.append((feed, delay_s))
        self._ask_next()

    def _receive_ordinary(self, found: Frame) -> None:
        exchange = self._exchange
        match found.type:
            case ordinary.PARAMETER_STATUS:
                name, text = ordinary.parameter_status(found.body)
                if name == LSN:
                    self._end_batch(text)
            case ordinary.ERROR_RESPONSE:
                error = ServerError(ordinary.error_fields(found.body))
                if exchange is None:
                    raise ConnectionFailed(f"the server ends the connection: {error}")
                exchange.error = error
            case ordinary.READY if exchange is not None:
                self.transaction, self._exchange, exchange.done = found.body, None, True
            case ordinary.ROW_DESCRIPTION if exchange is not None:
                exchange.columns, exchange.rows = ordinary.columns(found.body), []
            case ordinary.DATA_ROW if exchange is not None:
                exchange.rows.append(ordinary.data_row(found.body))
            case ordinary.COPY_IN if exchange is not None:
                self._send(ordinary.copy_fail("query() does not COPY: use psycopg or psql"))
            case ordinary.COPY_OUT if exchange is not None:
                exchange.error = ProtocolViolated("query() does not COPY: use psycopg or psql")
            case _:
                pass  # notices, completions, and types that are not known (V5)

    def _end_batch(self, lsn: str) -> None:
        self._tells_lsn = True
        for feed in self._touched:
            feed.end_batch(lsn)
        self._touched.clear()
