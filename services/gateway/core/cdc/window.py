"""How much of the log a subscription may still read, and how far it is behind (S27 to S31, decisions 9, 10 and 29)."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

HORIZON = "wal_horizon_exceeded"
TRUNCATED = "truncated"
UNWRITABLE = "change_not_in_log"
NEW_HISTORY = "history_began"
PARTS_CHANGED = "partitions_changed"
KEY_CHANGED = "key_changed"
RIGHTS_CHANGED = "rights_changed"


class State(StrEnum):
    """In the order of S30, the last first."""

    HEALTHY = "healthy"
    PRESSURE = "pressure"
    THROTTLE = "throttle"
    PAUSED = "paused"
    RESNAPSHOT = "resnapshot_required"


class Window(Struct, frozen=True, kw_only=True):
    """The stretch of the log that counts: its last seq, how many events it has, where its history began."""

    retention: int
    latest: int
    history: int = 0
    first: int = 1

    @property
    def earliest(self) -> int:
        """Logical, so that it is exact: nothing need be trimmed for it."""
        return max(self.latest - self.retention + 1, self.first)

    @property
    def warn_lag(self) -> int:
        return max(1, self.retention // 2)

    @property
    def throttle_lag(self) -> int:
        return -(-3 * self.retention // 4)

    def is_lost(self, start: int) -> bool:
        """Whether events after this offset are not all in the window (S28)."""
        return start < self.earliest - 1


class Cursor(Struct, frozen=True, kw_only=True):
    """Where a subscription stands, as it is kept durably."""

    acked: int
    history: int
    paused: bool = False


class Backpressure(Struct, frozen=True, kw_only=True):
    state: State
    lag: int
    remaining: int
    paused: bool

    @property
    def shown(self) -> dict[str, Any]:
        return {
            "state": self.state.value,
            "lag": self.lag,
            "remaining_until_resnapshot": self.remaining,
            "paused": self.paused,
        }


def backpressure(window: Window, cursor: Cursor, *, must_resnapshot: bool = False) -> Backpressure:
    """The state by what was acked; `must_resnapshot` is what a poll found out beyond that."""
    lag = max(0, window.latest - cursor.acked)
    lost = must_resnapshot or window.is_lost(cursor.acked) or cursor.history < window.history
    if lost:
        state = State.RESNAPSHOT
    elif cursor.paused:
        state = State.PAUSED
    elif lag >= window.throttle_lag:
        state = State.THROTTLE
    elif lag >= window.warn_lag:
        state = State.PRESSURE
    else:
        state = State.HEALTHY
    remaining = 0 if lost else max(0, window.retention - lag)
    return Backpressure(state=state, lag=lag, remaining=remaining, paused=cursor.paused)


class Resnapshot(Struct, frozen=True):
    """The subscription cannot go on from where it stands: take the table anew, then go on behind `offset`."""

    offset: int
    reason: str

    @property
    def shown(self) -> dict[str, Any]:
        return {
            "resnapshot_required": True,
            "resnapshot_from_offset": self.offset,
            "resnapshot_reason": self.reason,
        }


def lost_before(window: Window, cursor: Cursor, start: int) -> Resnapshot | None:
    """Whether what follows `start` can be told without a gap; the horizon goes before a pause (S25)."""
    if cursor.history < window.history:
        return Resnapshot(window.earliest - 1, NEW_HISTORY)
    if window.is_lost(start):
        return Resnapshot(window.earliest - 1, HORIZON)
    return None
