"""A client that means no good: generated queries and hostile frames, on connections of one weak role."""

import random
import threading
import time
from collections import Counter
from struct import pack
from uuid import UUID

import psycopg
from psycopg.conninfo import make_conninfo

from proto.pgwire.framing import encode_frame
from proto.pgwire.live import ACK, BACKEND_TYPES, DATA, ERROR, PARTIAL, Pause, Resume, Subscribe, Unsubscribe, encode
from tests.fixtures.wire import WireClient
from tests.security.sentinel.queries import Queries

NAMES = {ACK: "accepted", DATA: "data", ERROR: "refused", PARTIAL: "partial"}
KEPT_SUBSCRIPTIONS = 12
# Start-up options in which PostgreSQL and a careless reader see different settings.
OPTIONS = ("", "", "", "-c foo.b$-crole={strong}", "-crole={strong}", "-c search_path=own,public", "-c session_a.b=x")


def message(kind: str, body: bytes) -> bytes:
    return encode_frame(ord(kind), body)


class Prober(threading.Thread):
    """Runs until it is told to stop; `counts` says what it did and what it was told."""

    def __init__(self, dsn: str, strong: str, *, seed: str, others: list[UUID], allowed: tuple[str, ...] = ()) -> None:
        super().__init__(daemon=True)
        self._dsn, self._strong, self._others = dsn, strong, others
        self._random, self._queries = random.Random(seed), Queries(seed, allowed=allowed)
        self._over = threading.Event()
        self._client: WireClient | None = None
        self._own: list[UUID] = []
        self.counts: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.failure: BaseException | None = None

    def stop(self) -> None:
        self._over.set()

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._turn()
        except BaseException as failure:
            self.failure = failure
            raise
        finally:
            if self._client is not None:
                self._client.close()

    def _turn(self) -> None:
        try:
            if self._client is None:
                self._connect()
            assert self._client is not None
            if self._random.random() < 0.25:
                self.counts["hostile"] += 1
                self._client.send(self._hostile())
            else:
                self.counts["queries"] += 1
                query, condition = self._queries.next()
                self._client.send(Subscribe(query, (), condition))
            self._listen(0.3)
            while len(self._own) > KEPT_SUBSCRIPTIONS:
                self._client.send(Unsubscribe(self._own.pop(0)))
        except (psycopg.OperationalError, OSError, ConnectionError):
            self._hang_up()

    def _connect(self) -> None:
        options = self._random.choice(OPTIONS).format(strong=self._strong)
        self._client = WireClient(make_conninfo(self._dsn, options=options), timeout_s=30.0)
        self.counts["connections"] += 1

    def _hang_up(self) -> None:
        self.counts["hung up"] += 1
        if self._client is not None:
            self._client.close()
        self._client, self._own = None, []
        self._over.wait(0.05)

    def _listen(self, quiet_s: float) -> None:
        """Take what comes until nothing has come for a moment."""
        assert self._client is not None
        until = time.monotonic() + 3.0
        while time.monotonic() < until and not self._over.is_set():
            frames = self._client.arrived()
            if not frames:
                if self._over.wait(0.02) or time.monotonic() > until - 3.0 + quiet_s:
                    return
                continue
            for frame in frames:
                self.counts[NAMES.get(frame.type, "ordinary")] += 1
                if frame.type == ERROR:
                    self.refusals[bytes(frame.body[16:]).decode(errors="replace")[:60]] += 1
                if frame.type == ACK:
                    self._own.append(UUID(bytes=bytes(frame.body[:16])))
            if any(frame.type in BACKEND_TYPES for frame in frames):
                return

    def _hostile(self) -> bytes:
        r = self._random
        peek = encode(Subscribe(r.choice(("SELECT * FROM vault", "TABLE mixed", "SELECT payload FROM guarded"))))
        somebodys = r.choice([*self._others, *self._own, UUID(int=r.getrandbits(128))])
        query, _ = self._queries.next()
        sync, flush = message("S", b""), message("H", b"")
        parse = message("P", b"\0" + query.encode() + b"\0" + pack("!h", 0))
        copy = message("P", b"\0COPY own.t FROM STDIN\0" + pack("!h", 0))
        bind, execute = message("B", b"\0\0" + pack("!hhh", 0, 0, 0)), message("E", b"\0" + pack("!i", 0))
        shows = message("P", b"\0SELECT payload, payload FROM guarded\0" + pack("!h", 0))

        def simple(sql: str) -> bytes:
            return message("Q", sql.encode() + b"\0")

        return r.choice(
            (
                encode_frame(0xF0, r.randbytes(r.randint(0, 60))),
                encode_frame(0xF0, pack("!i", r.choice((-1, 0, 1 << 30))) + r.randbytes(20)),
                encode_frame(r.choice((0xF1, 0xF5, 0xF6)), r.randbytes(r.randint(0, 20))),
                encode(r.choice((Unsubscribe, Pause, Resume))(somebodys)),
                encode(Pause(somebodys)) + encode(Resume(somebodys)) + peek,
                encode(Subscribe(query, (b"x", None), "\udcff".encode("utf-8", "surrogatepass").decode("latin1"))),
                simple(query),
                simple("SELECT * FROM vault"),
                simple(f"SET ROLE {self._strong}") + peek,
                simple(f"SET SESSION AUTHORIZATION {self._strong}") + peek,
                simple("BEGIN; SELECT 1 / 0") + peek + simple("ROLLBACK"),
                simple(f"SELECT set_config('role', '{self._strong}', false)") + peek,
                simple("RESET ALL; DISCARD ALL") + peek,
                parse + peek + sync,
                parse + flush + peek + sync,
                parse + bind + execute + peek + sync,
                copy + bind + execute + message("c", b"") + sync + shows + bind + execute + sync + peek,
                copy + bind + execute + sync + message("c", b"") + message("f", b"x\0") + peek + sync,
                shows + bind + execute + peek + sync,
                simple("COPY own.t FROM STDIN") + peek + message("f", b"no\0"),
                simple("COPY (SELECT * FROM vault) TO STDOUT") + peek,
                simple("LISTEN x; NOTIFY x, 'y'") + peek,
                peek * 5,
            )
        )
