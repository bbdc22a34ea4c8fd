"""The PG port in this process, on a loop in a thread of its own, with what it hands to the rest written down."""

import asyncio
import threading
from collections.abc import Callable

import psycopg
import structlog
import uvloop

from proto.pgwire.conversation import Traffic
from proto.pgwire.live import FromClient
from services.devstack.ports import free_port
from services.gateway.core.identity import Identity
from services.gateway.inbound.pgwire import PgPort
from services.gateway.inbound.server import server_of
from services.gateway.inbound.session import Session
from services.gateway.inbound.tls import certificate_of
from services.gateway.settings import Gateway


class Recorder:
    """Stands where Live stands: each message with who sent it, after his settings were read."""

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self.names = names
        self.received: list[tuple[FromClient, Identity]] = []
        self.outlets: dict[str, Session] = {}
        self.wants_lsn: dict[str, bool] = {}
        self.closed: list[str] = []
        self.drains = 0
        self.arrived = threading.Condition()

    def open(self, connection_id: str, outlet: Session, *, wants_lsn: bool) -> None:
        self.outlets[connection_id], self.wants_lsn[connection_id] = outlet, wants_lsn

    def close(self, connection_id: str) -> None:
        with self.arrived:
            self.closed.append(connection_id)
            self.arrived.notify_all()

    def drained(self, connection_id: str) -> None:
        self.drains += 1

    async def receive(self, message: FromClient, client: Session) -> None:
        identity = await client.settled(self.names)
        with self.arrived:
            self.received.append((message, identity))
            self.arrived.notify_all()

    def wait(self, condition: Callable[["Recorder"], bool], within_s: float = 30.0) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: condition(self), within_s), self.received

    def last(self, count: int) -> Identity:
        """Who sent the count-th message."""
        self.wait(lambda recorder: len(recorder.received) >= count)
        return self.received[count - 1][1]


class RunningPort:
    """Started by `with`; ends with it."""

    def __init__(self, dsn: str, names: tuple[str, ...] = (), **settings: object) -> None:
        self.port, self.recorder = free_port(), Recorder(names)
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
            server_of(self._dsn),
            certificate_of(self._settings),
            live=self.recorder,
            traffic=Traffic(),
            log=log,
        )
        self._task = asyncio.current_task()
        await port.serve()


def _said(ready: threading.Event) -> Callable[[object, str, dict[str, object]], object]:
    def processor(_logger: object, _method: str, event: dict[str, object]) -> object:
        if event["event"] == "listening":
            ready.set()
        raise structlog.DropEvent

    return processor
