"""The replication stream: PostgreSQL's walsender decoding the WAL for our slot."""

from collections.abc import Sequence
from types import TracebackType

import psycopg2
from psycopg2.errors import ObjectInUse, UndefinedObject
from psycopg2.extensions import make_dsn
from psycopg2.extras import LogicalReplicationConnection, ReplicationCursor

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.positions import Lsn, parse_lsn
from services.capture.core.continuity import Database
from services.capture.errors import ReplicationEnded, SlotInUse, SlotTaken, UndecodableWal
from services.chassis.postgres import Postgres, failure

APPLICATION_NAME = "tidewire capture"


class Replication:
    """A connection to the walsender; `start` takes the slot, which no second process can hold."""

    def __init__(self, postgres: Postgres, *, slot: str, wal_sender_timeout_ms: int) -> None:
        self._slot = slot
        settings = {**PINNED_TEXT_SETTINGS, "wal_sender_timeout": str(wal_sender_timeout_ms)}
        try:
            self._connection = psycopg2.connect(
                make_dsn(
                    postgres.dsn,
                    application_name=APPLICATION_NAME,
                    options=" ".join(f"-c {name}={_escaped(value)}" for name, value in settings.items()),
                    connect_timeout=10,
                ),
                connection_factory=LogicalReplicationConnection,
            )
        except psycopg2.OperationalError as error:
            raise failure(postgres, str(error)) from error
        self._cursor: ReplicationCursor = self._connection.cursor()

    def __enter__(self) -> "Replication":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    @property
    def process_id(self) -> int:
        """The walsender's."""
        return int(self._connection.get_backend_pid())

    def identify(self) -> Database:
        try:
            self._cursor.execute("IDENTIFY_SYSTEM")
        except psycopg2.OperationalError as error:
            raise ReplicationEnded(str(error).strip()) from error
        row = self._cursor.fetchone()
        assert row is not None
        system_identifier, timeline, flushed, name = row
        return Database(
            system_identifier=int(system_identifier), timeline=timeline, name=name, flushed_lsn=parse_lsn(flushed)
        )

    def start(self, publications: Sequence[str]) -> None:
        """Begin to stream from where the slot stands."""
        options = {
            "proto_version": "1",
            "publication_names": ",".join('"' + name.replace('"', '""') + '"' for name in publications),
            "messages": "true",
        }
        try:
            self._cursor.start_replication(slot_name=self._slot, options=options, decode=False, status_interval=1)
        except ObjectInUse as error:
            raise SlotInUse(self._slot, None) from error
        except UndefinedObject as error:
            # It was there a moment ago: another capture is making it anew.
            raise SlotTaken(self._slot) from error
        except psycopg2.OperationalError as error:
            raise ReplicationEnded(str(error).strip()) from error
        except psycopg2.Error as error:
            raise UndecodableWal(self._slot, str(error).strip()) from error

    def read(self) -> bytes | None:
        """The next pgoutput message; None if there is none now."""
        try:
            message = self._cursor.read_message()
        except (psycopg2.OperationalError, psycopg2.InterfaceError) as error:
            raise ReplicationEnded(str(error).strip()) from error
        except psycopg2.DatabaseError as error:
            # Raised for every end of the stream; only a few SQLSTATEs mean that it would end the same way again.
            if error.pgcode in UNDECODABLE:
                raise UndecodableWal(self._slot, str(error).strip()) from error
            raise ReplicationEnded(str(error).strip()) from error
        return None if message is None else message.payload

    @property
    def sent_lsn(self) -> Lsn:
        """Up to where PostgreSQL has told us everything, as of the last message read."""
        return Lsn(self._cursor.wal_end)

    def acknowledge(self, lsn: Lsn) -> None:
        """PostgreSQL may forget what is before `lsn`; also the sign of life that keeps the walsender."""
        try:
            self._cursor.send_feedback(write_lsn=lsn, flush_lsn=lsn, apply_lsn=lsn, force=True)  # type: ignore[no-untyped-call]
        except (psycopg2.DatabaseError, psycopg2.InterfaceError) as error:
            raise ReplicationEnded(str(error).strip()) from error

    def fileno(self) -> int:
        return int(self._cursor.fileno())  # type: ignore[no-untyped-call]


# undefined_object: a publication that the WAL does not know. object_not_in_prerequisite_state: an invalidated slot.
UNDECODABLE = frozenset({"42704", "55000"})


def _escaped(value: str) -> str:
    """As libpq's `options` wants it: backslash before white space."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
