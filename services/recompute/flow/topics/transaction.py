"""The transaction of the log that is being read, as candidates of each group."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from proto.pgoutput.messages import ABSENT
from proto.streams.changes import ChangeUnwritable, RowChanged, Truncated
from proto.streams.topic_marks import ActorNamed, RowsTruncated, TopicDefined
from services.recompute.core.topics.payload import Change
from services.recompute.core.topics.routing import Candidate, Place
from services.recompute.core.topics.truncated_rows import UNKNOWN, nothing_known, read_rows, table_of
from services.recompute.flow.topics.group import TopicGroup

Event = RowChanged | Truncated | ChangeUnwritable | RowsTruncated | ActorNamed | TopicDefined


class _Truncation(Struct, frozen=True):
    """A mark as it came: rows that were read take many times its memory, and its TRUNCATE may be far behind it."""

    table_oid: int
    content: bytes


class OpenCommit:
    """Collects what comes until the commit; `drain` gives what was collected since the last one."""

    def __init__(self) -> None:
        self.size = 0
        self.lsn = self.ordinal = 0
        self.alters = False
        self.definitions: list[bytes] = []
        self._actor: str | None = None
        self._candidates: dict[int, list[Candidate]] = {}
        self._truncations: list[_Truncation] = []

    def alter(self) -> None:
        """The transaction has DDL: what tables are, and who may read them, may be another behind it."""
        self.alters = True

    def take(self, event: Event, history: int, groups: Iterable[TopicGroup]) -> None:
        self.lsn, self.ordinal = event.commit_lsn, event.ordinal
        match event:
            case ActorNamed(content=content):
                self._actor = content.decode("utf-8", "replace") or None
            case TopicDefined(content=content):
                self.definitions.append(content)
            case RowsTruncated(content=content):
                self._truncations.append(_Truncation(table_of(content), content))
            case RowChanged():
                change = Change(
                    relation=event.relation, operation=event.operation, before=event.before, after=event.after
                )
                self._add(change, _place(event, history), groups)
            case Truncated():
                self._truncate(event, history, groups)
            case ChangeUnwritable():
                self._fail(event, history, groups)

    def drain(self) -> dict[int, list[Candidate]]:
        """By the number of their group. A name that the transaction gives later reaches only what is still here."""
        candidates, self._candidates, self.size = self._candidates, {}, 0
        if self._actor is None:
            return candidates
        return {number: [one.named(self._actor) for one in ones] for number, ones in candidates.items()}

    def _add(self, change: Change, place: Place, groups: Iterable[TopicGroup], trouble: str | None = None) -> None:
        for group in groups:
            if group.position is not None and not group.position.covers(place.history, place.lsn, place.ordinal):
                found = list(group.routing.candidates(change, place, trouble))
                if found:
                    self._candidates.setdefault(group.number, []).extend(found)
                    self.size += len(found)

    def _truncate(self, event: Truncated, history: int, groups: Iterable[TopicGroup]) -> None:
        """One delete for each row that our trigger noted; without a note one that says so."""
        noted = [one for one in self._truncations if one.table_oid == event.relation.oid]
        self._truncations = [one for one in self._truncations if one.table_oid != event.relation.oid]
        place = _place(event, history)
        deletes = (change for one in noted for change in read_rows(one.content).deletes(event.relation))
        for row, change in enumerate(deletes):
            self._add(change, msgspec.structs.replace(place, row=row), groups)
        if not noted:
            self._add(nothing_known(event.relation), place, groups, UNKNOWN)

    def _fail(self, event: ChangeUnwritable, history: int, groups: Iterable[TopicGroup]) -> None:
        row = (ABSENT,) * len(event.relation.columns)
        is_delete = event.operation == "delete"
        change = Change(
            relation=event.relation,
            operation=event.operation,
            before=row if is_delete else None,
            after=None if is_delete else row,
        )
        self._add(change, _place(event, history), groups, event.reason)


def _place(event: RowChanged | Truncated | ChangeUnwritable, history: int) -> Place:
    return Place(
        history=history,
        seq=event.seq,
        lsn=event.commit_lsn,
        ordinal=event.ordinal,
        committed_us=event.commit_time_us,
    )
