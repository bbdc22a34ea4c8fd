"""From which seq on `changes` is still needed."""

from collections.abc import Iterable

from msgspec import Struct


class Reader(Struct, frozen=True):
    """Somebody who reads the log on from `first_seq`, and when he was heard of last."""

    name: str
    first_seq: int
    heard_us: int


class Needed(Struct, frozen=True):
    """The first seq that must stay; who holds it, and who was silent for too long."""

    first_seq: int
    oldest: Reader | None
    dead: tuple[Reader, ...]


def first_needed(readers: Iterable[Reader], *, next_seq: int, events: int, grace_us: int, now_us: int) -> Needed:
    """The last `events` stay, and whatever a living reader has not read yet."""
    everybody = sorted(readers, key=lambda one: one.first_seq)
    alive = [one for one in everybody if now_us - one.heard_us <= grace_us]
    dead = tuple(one for one in everybody if now_us - one.heard_us > grace_us)
    oldest = alive[0] if alive else None
    horizon = max(next_seq - events, 1)
    # One before it: a reader begins at the record behind the last one that it has read.
    held = horizon if oldest is None else min(horizon, max(oldest.first_seq - 1, 1))
    return Needed(held, oldest, dead)
