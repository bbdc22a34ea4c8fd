"""The PG port in this process, on a loop in a thread of its own, with what it hands to the rest written down."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from uuid import UUID

import psycopg
import structlog
import uvloop

from proto.pgwire.conversation import Traffic
from services.devstack.ports import free_port
from services.gateway.core.bounds import SubscribeLimits
from services.gateway.core.encoders.binary import BinaryEncoder
from services.gateway.core.encoders.partial_rows import PartialRowRule
from services.gateway.core.principal import Principal, ProvenIdentity
from services.gateway.core.requests import SubscribeRequest
from services.gateway.core.topics.rewrite import literal
from services.gateway.core.topics.statements import Carried
from services.gateway.errors import Refusal, SubscribeRefused
from services.gateway.inbound.certificate import certificate_of
from services.gateway.inbound.pg_port.binary_door import BinaryDoorParts
from services.gateway.inbound.pg_port.listener import PgPort
from services.gateway.inbound.pg_port.listening import Listening
from services.gateway.inbound.pg_port.session import PgSession
from services.gateway.outbound.upstream import upstream_of
from services.gateway.settings import Gateway


class Recorder:
    """Stands where delivery and subscribing stand: each request with who sent it, after the settings were read."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self.names = names
        self.received: list[tuple[SubscribeRequest, Principal]] = []
        self.outlets: dict[str, PgSession] = {}
        self.wants_lsn: dict[str, bool] = {}
        self.closed: list[str] = []
        self.refused: list[str] = []
        self.unsubscribed: list[UUID] = []
        self.ended: list[str] = []
        self.drains = 0
        self.arrived = threading.Condition()

    def open(self, connection_id: str, outlet: PgSession) -> None:
        self.outlets[connection_id] = outlet

    def close(self, connection_id: str) -> None:
        with self.arrived:
            self.closed.append(connection_id)
            self.arrived.notify_all()

    def drained(self, connection_id: str) -> None:
        self.drains += 1

    async def subscribe(
        self, request: SubscribeRequest, session: PgSession, encoder: BinaryEncoder, place: int
    ) -> None:
        self.wants_lsn[session.connection_id] = encoder.wants_lsn
        try:
            principal = (await session.proven(self.names)).principal
        except SubscribeRefused as refusal:
            with self.arrived:
                self.refused.append(refusal.message)
                self.arrived.notify_all()
            return
        with self.arrived:
            self.received.append((request, principal))
            self.arrived.notify_all()

    async def reprove(self, session: PgSession) -> bool:
        return True

    def unsubscribe(self, subscription_id: UUID, connection_id: str) -> None:
        with self.arrived:
            self.unsubscribed.append(subscription_id)
            self.arrived.notify_all()

    def end_all(self, connection_id: str, refusal: Refusal) -> None:
        with self.arrived:
            self.ended.append(refusal.message)
            self.arrived.notify_all()

    def wait(self, condition: Callable[["Recorder"], bool], within_s: float = 30.0) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: condition(self), within_s), f"{len(self.received)} received"

    def last(self, count: int) -> Principal:
        """Who sent the count-th message."""
        self.wait(lambda recorder: len(recorder.received) >= count)
        return self.received[count - 1][1]


class Channel:
    """Stands for the NOTIFY door's hub: who listens, and what a test tells all of them."""

    channel, place = "pgr", 0

    def __init__(self) -> None:
        self.listeners: dict[object, tuple[str, str]] = {}

    async def listen(self, listener: Listening, since: int) -> None:
        self.listeners[listener] = listener.principal

    def unlisten(self, listener: Listening) -> None:
        self.listeners.pop(listener, None)

    def tell(self, payload: bytes) -> None:
        for listener in list(self.listeners):
            listener.notify(self.channel, payload)


class RunningPort:
    """Started by `with`; ends with it."""

    def __init__(self, dsn: str, names: tuple[str, ...] = (), **settings: object) -> None:
        self.port, self.recorder, self.channel = free_port(), Recorder(names), Channel()
        self._dsn, self._settings = dsn, Gateway(port=self.port, **settings)
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._task: asyncio.Task[None] | None = None

    @property
    def dsn(self) -> str:
        parts = psycopg.conninfo.conninfo_to_dict(self._dsn)
        return psycopg.conninfo.make_conninfo(**{**parts, "host": "127.0.0.1", "port": self.port})

    def __enter__(self) -> "RunningPort":
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """As a SIGTERM does."""
        if self._thread.is_alive() and self._task is not None:
            self._runner.get_loop().call_soon_threadsafe(self._task.cancel)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def call(self, function: Callable[[], object]) -> None:
        """On the port's own loop."""
        self._runner.get_loop().call_soon_threadsafe(function)

    def _run(self) -> None:
        with self._runner as runner:
            try:
                runner.run(self._serve())
            except asyncio.CancelledError:
                return

    async def _serve(self) -> None:
        log = structlog.wrap_logger(None, processors=[_said(self._ready)], wrapper_class=structlog.BoundLogger)
        port = PgPort(
            self._settings,
            upstream_of(self._dsn),
            certificate_of(self._settings),
            binary_door=BinaryDoorParts(
                delivery=self.recorder,
                subscribing=self.recorder,
                rule=PartialRowRule(),
                limits=SubscribeLimits(subscribes_per_s=10_000, subscribes_under_way=10_000, messages_per_s=10_000),
                on_refused=lambda: None,
            ),
            notify=self.channel,
            topics=NoTopics(),
            traffic=Traffic(),
            log=log,
        )
        self._task = asyncio.current_task()
        await port.serve()


class NoTopics:
    """In the place of the topics door: tells for whom it would have carried a statement out."""

    async def answered(self, statement: Carried, prove: Callable[[], Awaitable[ProvenIdentity]]) -> str:
        return f"SELECT {literal((await prove()).principal.role)}"


def _said(ready: threading.Event) -> Callable[[object, str, dict[str, object]], object]:
    def processor(_logger: object, _method: str, event: dict[str, object]) -> object:
        if event["event"] == "listening":
            ready.set()
        raise structlog.DropEvent

    return processor
