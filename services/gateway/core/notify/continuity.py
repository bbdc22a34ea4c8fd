"""Whether a reader of `notifications` has seen every record: one who is far behind finds some compacted away."""

from collections.abc import Mapping

from msgspec import Struct


class Gap(Struct, frozen=True):
    """Records of a partition were gone before they were read: nobody can be told what they said."""

    partition: int


class Continuity:
    def __init__(self, starts: Mapping[int, int]) -> None:
        """The first offset that is wanted of each partition."""
        self._next = dict(starts)

    def follows(self, partition: int, offset: int) -> bool:
        """Whether the record at this offset is the next one; it is the last that was seen, from now on."""
        wanted, self._next[partition] = self._next[partition], offset + 1
        return offset == wanted
