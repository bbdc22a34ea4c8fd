"""The replication stream: PostgreSQL's walsender decoding the WAL for our slot."""

import time
from collections.abc import Sequence
from struct import Struct as Packed
from types import TracebackType

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.pgoutput.decoder import POSTGRES_EPOCH_US
from proto.positions import Lsn, parse_lsn
from services.capture.core.continuity import Database
from services.capture.errors import ReplicationEnded, SlotInUse, SlotTaken, UndecodableWal
from services.chassis.postgres import TIMEOUT_S, Postgres, failure

APPLICATION_NAME = "tidewire capture"

# The messages inside the COPY, section 54.4 of PostgreSQL's manual.
_DATA, _KEEPALIVE = b"wk"
_DATA_HEADER = Packed("!cqqq")
_KEEPALIVE_BODY = Packed("!cqqB")
_STATUS = Packed("!cqqqqB")

_OBJECT_IN_USE, _UNDEFINED_OBJECT = "55006", "42704"
# A publication that the WAL does not know, an invalidated slot: the stream would end the same way again.
_UNDECODABLE = frozenset({"42704", "55000"})


class Replication:
    """A connection to the walsender; `start` takes the slot, which no second process can hold.

    Spoken through libpq itself: a driver that answers keepalives on its own would confirm positions that Kafka has not
    heard of, and a slot that is ahead of the log is how a log that lost its tail is told.
    """

    def __init__(self, postgres: Postgres, *, slot: str, wal_sender_timeout_ms: int) -> None:
        self._slot = slot
        self._sent_lsn = self._acknowledged_lsn = self._awaited_lsn = Lsn(0)
        settings = {**PINNED_TEXT_SETTINGS, "wal_sender_timeout": str(wal_sender_timeout_ms)}
        conninfo = make_conninfo(
            postgres.dsn,
            replication="database",
            application_name=APPLICATION_NAME,
            options=" ".join(f"-c {name}={_escaped(value)}" for name, value in settings.items()),
            connect_timeout=TIMEOUT_S,
        )
        self._connection = pq.PGconn.connect(conninfo.encode())
        if self._connection.status != pq.ConnStatus.OK:
            words = self._connection.get_error_message()
            self._connection.finish()
            raise failure(postgres, words)

    def __enter__(self) -> "Replication":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.finish()

    @property
    def process_id(self) -> int:
        """The walsender's."""
        return self._connection.backend_pid

    def identify(self) -> Database:
        result = self._connection.exec_(b"IDENTIFY_SYSTEM")
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise ReplicationEnded(_words(result))
        system_identifier, timeline, flushed, name = (result.get_value(0, at) or b"" for at in range(4))
        return Database(
            system_identifier=int(system_identifier),
            timeline=int(timeline),
            name=name.decode(),
            flushed_lsn=parse_lsn(flushed.decode()),
        )

    def start(self, publications: Sequence[str]) -> None:
        """Begin to stream from where the slot stands."""
        names = ",".join(_identifier(name) for name in publications)
        options = f"proto_version '1', messages 'true', publication_names {_literal(names)}"
        command = f"START_REPLICATION SLOT {_identifier(self._slot)} LOGICAL 0/0 ({options})"
        result = self._connection.exec_(command.encode())
        if result.status == pq.ExecStatus.COPY_BOTH:
            return
        if _sqlstate(result) == _OBJECT_IN_USE:
            raise SlotInUse(self._slot, None)
        if _sqlstate(result) == _UNDEFINED_OBJECT:
            # It was there a moment ago: another capture is making it anew.
            raise SlotTaken(self._slot)
        if self._connection.status != pq.ConnStatus.OK:
            raise ReplicationEnded(_words(result))
        raise UndecodableWal(self._slot, _words(result))

    def read(self) -> bytes | None:
        """The next pgoutput message; None if there is none now."""
        asked = False
        while True:
            try:
                length, message = self._connection.get_copy_data(1)
                if length == 0:
                    if asked:
                        return None
                    self._connection.consume_input()
                    asked = True
                    continue
            except psycopg.OperationalError as error:
                raise ReplicationEnded(str(error).strip()) from error
            if length < 0:
                raise self._end()
            if message[0] == _DATA:
                _, _, sent_lsn, _ = _DATA_HEADER.unpack_from(message)
                self._sent_lsn = max(self._sent_lsn, Lsn(sent_lsn))
                return bytes(message[_DATA_HEADER.size :])
            if message[0] == _KEEPALIVE:
                _, sent_lsn, _, answer_at_once = _KEEPALIVE_BODY.unpack_from(message)
                self._sent_lsn = max(self._sent_lsn, Lsn(sent_lsn))
                if answer_at_once:
                    self._awaited_lsn = self._sent_lsn
                    self.acknowledge(self._acknowledged_lsn)

    @property
    def sent_lsn(self) -> Lsn:
        """Up to where PostgreSQL has told us everything, as of the last message read; only between transactions."""
        return self._sent_lsn

    @property
    def is_awaited(self) -> bool:
        """Whether PostgreSQL waits for us to confirm what it has sent, as it does before it shuts down."""
        return self._acknowledged_lsn < self._awaited_lsn

    def acknowledge(self, lsn: Lsn) -> None:
        """PostgreSQL may forget what is before `lsn`; also the sign of life that keeps the walsender."""
        self._acknowledged_lsn = max(self._acknowledged_lsn, lsn)
        position, now_us = self._acknowledged_lsn, time.time_ns() // 1000 - POSTGRES_EPOCH_US
        try:
            self._connection.put_copy_data(_STATUS.pack(b"r", position, position, position, now_us, 0))
            self._connection.flush()
        except psycopg.OperationalError as error:
            raise ReplicationEnded(str(error).strip()) from error

    def fileno(self) -> int:
        return self._connection.socket

    def _end(self) -> Exception:
        result = self._connection.get_result()
        if result is None:
            return ReplicationEnded("the server ended the stream")
        if _sqlstate(result) in _UNDECODABLE:
            return UndecodableWal(self._slot, _words(result))
        return ReplicationEnded(_words(result))


def _sqlstate(result: pq.abc.PGresult) -> str:
    return (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()


def _words(result: pq.abc.PGresult) -> str:
    return result.get_error_message().strip()


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _escaped(value: str) -> str:
    """As libpq's `options` wants it: backslash before white space."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
