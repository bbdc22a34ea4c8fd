"""Finds the position in the log of an answer of PostgreSQL: behind the commits that its snapshot sees."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from proto.positions import Xid
from services.recompute.core.result import Position


class Concern(Struct, frozen=True):
    """A commit that touched what the query reads."""

    # Where the log stood before it, and behind it.
    before: Position
    position: Position
    xid: Xid
    # It emptied or altered a table: such a change shows at once, also to snapshots that do not see its commit.
    resets: bool


class Seeing(Protocol):
    def sees(self, xid: Xid) -> bool: ...


def place(concerns: Sequence[Concern], snapshot: Seeing) -> int | None:
    """How many of the first commits the answer contains; None if it contains a later one without an earlier: run again.

    Commits are in the log before they are seen, for long if they wait for a standby, so a snapshot may see a later one
    and miss an earlier one. The concerns must reach at least to a barrier that was emitted after the run.
    """
    seen = [snapshot.sees(concern.xid) for concern in concerns]
    contained = seen.index(False) if False in seen else len(seen)
    if any(seen[contained:]) or any(concern.resets for concern in concerns[contained:]):
        return None
    return contained
