"""Reads the changes of one table since a checkpoint from the log."""

from msgspec import Struct

from proto.positions import Lsn, Seq
from proto.streams.changes import (
    ChangeEvent,
    ChangeUnwritable,
    Committed,
    GapInChanges,
    HistoryBegan,
    RowChanged,
    SchemaChanged,
    Truncated,
)
from services.changelog.follower import FIRST_SEQ, ChangesFollower, SeqNotInLog
from services.chassis.kafka import Kafka
from services.recompute.core.catalog import Table
from services.recompute.core.schema_marks import read_mark

READ_S = 1.0


class Mark(Struct, frozen=True):
    """A place between two commits of the log."""

    history: int
    lsn: Lsn
    # Of the first change behind it.
    next_seq: Seq


class Replayed(Struct, frozen=True):
    """The table's changes behind the mark, up to the commit `lsn`."""

    events: tuple[RowChanged | Truncated, ...]
    lsn: Lsn


class Unrepeatable(Exception):
    """The log does not have everything since the mark any more."""


def replay(kafka: Kafka, mark: Mark, table: Table) -> Replayed:
    """The changes up to the present end of the log."""
    follower = ChangesFollower(kafka, client_id="recompute-replay")
    try:
        return _Replay(follower, mark, table).run()
    except (SeqNotInLog, GapInChanges) as error:
        raise Unrepeatable(str(error)) from error
    finally:
        follower.close()


class _Replay:
    def __init__(self, follower: ChangesFollower, mark: Mark, table: Table) -> None:
        self._follower, self._mark, self._table = follower, mark, table
        self._kept: list[RowChanged | Truncated] = []
        self._open: list[RowChanged | Truncated] = []
        self._lsn = mark.lsn

    def run(self) -> Replayed:
        end = self._follower.end()
        # From the change before the mark: DDL marks have no seq of their own and may stand right behind it.
        if self._mark.next_seq > FIRST_SEQ:
            self._follower.from_seq(Seq(self._mark.next_seq - 1))
        else:
            self._follower.from_earliest()
        while self._follower.offset < end:
            for event in self._follower.read(READ_S):
                self._take(event)
        if self._follower.reader.history != self._mark.history:
            raise Unrepeatable(f"the log is in history {self._follower.reader.history}")
        return Replayed(tuple(self._kept), self._lsn)

    def _take(self, event: ChangeEvent) -> None:
        if isinstance(event, HistoryBegan):
            if event.history != self._mark.history:
                raise Unrepeatable(f"history {event.history} began")
            return
        if isinstance(event, Committed):
            if event.commit_lsn > self._mark.lsn:
                self._kept += self._open
                self._lsn = event.commit_lsn
            self._open = []
            return
        if isinstance(event, RowChanged | Truncated | ChangeUnwritable):
            if (event.seq >= self._mark.next_seq) != (event.commit_lsn > self._mark.lsn):
                raise Unrepeatable(f"seq {event.seq} stands elsewhere than when the checkpoint was written")
            self._change(event)
        elif (
            isinstance(event, SchemaChanged)
            and event.commit_lsn > self._mark.lsn
            and read_mark(event.description).is_about(self._table)
        ):
            raise Unrepeatable("its schema changed")

    def _change(self, event: RowChanged | Truncated | ChangeUnwritable) -> None:
        if event.relation.oid != self._table.oid or event.commit_lsn <= self._mark.lsn:
            return
        if isinstance(event, ChangeUnwritable):
            raise Unrepeatable(event.reason)
        self._open.append(event)
