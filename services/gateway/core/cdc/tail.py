"""The newest part of the log in memory: what live streams read, so that they do not touch Kafka."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import TypeAlias

from msgspec import Struct

from proto.pgoutput.messages import Row
from proto.streams.changes import ChangeUnwritable, RowChanged, Truncated

Change: TypeAlias = RowChanged | Truncated | ChangeUnwritable
# What an entry takes besides its values.
ENTRY_BYTES = 400
# How many looks of one entry are kept encoded.
LOOKS_KEPT = 4


class Entry(Struct):
    """A change, and its bytes by look once somebody has asked for them."""

    change: Change
    encoded: dict[object, bytes]
    size: int = 0


class TailLimits(Struct, frozen=True):
    events: int
    bytes: int


class _Seqs:
    """Growing numbers, taken off at the front."""

    def __init__(self) -> None:
        self._seqs: list[int] = []
        self._head = 0

    def add(self, seq: int) -> None:
        self._seqs.append(seq)

    def drop_first(self) -> None:
        self._head += 1
        if self._head > 512 and self._head * 2 > len(self._seqs):
            del self._seqs[: self._head]
            self._head = 0

    def after(self, seq: int) -> Iterator[int]:
        seqs = self._seqs
        for place in range(bisect_right(seqs, seq, lo=self._head), len(seqs)):
            yield seqs[place]

    def __len__(self) -> int:
        return len(self._seqs) - self._head


class Tail:
    """Changes with consecutive seqs, the oldest leaving; found by table."""

    def __init__(self, limits: TailLimits) -> None:
        self._limits = limits
        self._entries: dict[int, Entry] = {}
        self._tables: dict[int, _Seqs] = {}
        self._first = 0
        self._bytes = 0
        # The last seq that is known, held or not.
        self.latest = 0

    @property
    def first(self) -> int:
        """The lowest seq that is held, or the next one to come."""
        return self._first if self._entries else self.latest + 1

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries)

    def begin(self, latest: int) -> None:
        """Nothing is held, and the last seq is this one."""
        self._entries, self._tables, self._bytes = {}, {}, 0
        self.latest = latest

    def add(self, change: Change) -> None:
        if not self._entries:
            self._first = change.seq
        entry = self._entries[change.seq] = Entry(change, {}, _size(change))
        self._tables.setdefault(change.relation.oid, _Seqs()).add(change.seq)
        self._bytes += entry.size
        self.latest = change.seq
        self._trim()

    def keep(self, entry: Entry, look: object, data: bytes) -> None:
        """Keep an entry's bytes for whoever shows it alike, while the entry itself is held."""
        if len(entry.encoded) >= LOOKS_KEPT or self._entries.get(entry.change.seq) is not entry:
            return
        entry.encoded[look] = data
        entry.size += len(data)
        self._bytes += len(data)
        self._trim()

    def _trim(self) -> None:
        while len(self._entries) > self._limits.events or (self._bytes > self._limits.bytes and len(self._entries) > 1):
            self._drop_first()

    def after(self, seq: int, tables: Iterable[int]) -> Iterator[Entry]:
        """The changes of these tables behind this seq, in order; whoever asks has looked at `first`."""
        found = [seqs.after(seq) for oid in tables if (seqs := self._tables.get(oid)) is not None]
        ordered = found[0] if len(found) == 1 else merge(*found)
        entries = self._entries
        for each in ordered:
            yield entries[each]

    def _drop_first(self) -> None:
        entry = self._entries.pop(self._first)
        oid = entry.change.relation.oid
        seqs = self._tables[oid]
        seqs.drop_first()
        if not len(seqs):
            del self._tables[oid]
        self._bytes -= entry.size
        self._first += 1


def _size(change: Change) -> int:
    if not isinstance(change, RowChanged):
        return ENTRY_BYTES
    return ENTRY_BYTES + _row_size(change.before) + _row_size(change.after)


def _row_size(row: Row | None) -> int:
    return 0 if row is None else sum(len(value) for value in row if isinstance(value, bytes))
