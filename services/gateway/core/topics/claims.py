"""Where a group stands in one partition: what it has retired, and which ranges its consumers hold (decision 12).

Pure: each function gives the next state. Two states of one generation can be compared: `progress` never falls.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

Range = tuple[int, int]


class Claim(Struct, frozen=True):
    """Offsets that one consumer was given, both ends included, until a moment on Redis' clock."""

    claim_id: str
    first: int
    last: int
    until_ms: int


class GroupState(Struct, frozen=True, kw_only=True):
    # Above 32 bits the topic's cleared_generation, below them how often the group was reset.
    generation: int
    # Of a group that has acked nothing: where it begins.
    anchor: int
    acked: int | None = None
    # Retired beyond a gap, in order, without touching each other.
    retired: tuple[Range, ...] = ()
    claims: tuple[Claim, ...] = ()
    # What the last record on `cursors` says of it, and where that record is.
    told: tuple[int, int, int] = (-1, -1, -1)
    told_at: int = -1

    @property
    def next(self) -> int:
        return self.anchor if self.acked is None else self.acked + 1

    @property
    def progress(self) -> tuple[int, int, int]:
        acked = 0 if self.acked is None else self.acked + 1
        return self.generation, acked, sum(last - first + 1 for first, last in self.retired)

    @property
    def is_told(self) -> bool:
        return self.told >= self.progress


class Bounds(Struct, frozen=True):
    """Of a partition: the first offset that is kept, and the one that the next message will have."""

    earliest: int
    next: int


def take(
    state: GroupState, bounds: Bounds, *, now_ms: int, limit: int, visible_ms: int, nonce: str
) -> tuple[GroupState, Claim | None]:
    """The first free range of at most `limit`, claimed. An empty one claims nothing."""
    live = tuple(claim for claim in state.claims if claim.until_ms > now_ms)
    first, end = _free(state, live, bounds)
    if first >= end:
        return replace(state, claims=live), None
    last = min(end - 1, first + limit - 1)
    claim = Claim(f"{state.generation}.{first}.{last}.{nonce}", first, last, now_ms + visible_ms)
    return replace(state, claims=tuple(sorted((*live, claim), key=lambda each: each.first))), claim


def has_more(state: GroupState, bounds: Bounds, now_ms: int) -> bool:
    """Whether another consumer of the group would be given something now."""
    first, end = _free(state, tuple(claim for claim in state.claims if claim.until_ms > now_ms), bounds)
    return first < end


def free_from(state: GroupState, bounds: Bounds, now_ms: int) -> int:
    """The offset at which the group would read next."""
    return _free(state, tuple(claim for claim in state.claims if claim.until_ms > now_ms), bounds)[0]


def ack_upto(state: GroupState, upto: int) -> GroupState:
    """Cumulative: everything up to there is retired, whoever holds it. A lower one changes nothing."""
    if state.acked is not None and upto <= state.acked:
        return state
    left = [claim for claim in state.claims if claim.last > upto]
    return _settled(state, upto, state.retired, left, following=upto + 1)


def ack_claim(state: GroupState, claim_id: str, upto: int, earliest: int) -> tuple[GroupState, int] | None:
    """Retire the claim's range up to there, also if it has expired; None if the id is none of this generation."""
    parts = claim_id.split(".")
    if len(parts) != 4 or not all(part.isdecimal() and len(part) < 20 for part in parts[:3]):
        return None
    generation, first, last = map(int, parts[:3])
    if generation != state.generation or upto < first or last < first:
        return None
    end = min(last, upto)
    left = [claim for claim in state.claims if claim.claim_id != claim_id]
    left += [
        Claim(claim_id, end + 1, claim.last, claim.until_ms)
        for claim in state.claims
        if claim.claim_id == claim_id and claim.last > end
    ]
    if state.acked is not None and end <= state.acked:
        return replace(state, claims=tuple(left)), end
    # What retention has ended can be retired by nobody: it leaves no gap.
    retired = _joined((*state.retired, (first, end)))
    return _settled(state, state.acked, retired, left, following=max(state.next, earliest)), end


def reset(state: GroupState, to: int) -> GroupState:
    """To an offset, lower or higher, under the next generation; every claim is void."""
    return replace(
        state, generation=state.generation + 1, anchor=to, acked=to - 1 if to else None, retired=(), claims=()
    )


def give_back(state: GroupState, offset: int) -> GroupState:
    """A message that its consumer refused: its claim ends there, so that it comes again at once."""
    left: list[Claim] = []
    for claim in state.claims:
        if not claim.first <= offset <= claim.last:
            left.append(claim)
            continue
        for first, last in ((claim.first, offset - 1), (offset + 1, claim.last)):
            if first <= last:
                left.append(Claim(claim.claim_id, first, last, claim.until_ms))
    return replace(state, claims=tuple(left))


def _free(state: GroupState, live: tuple[Claim, ...], bounds: Bounds) -> Range:
    """The first range that nobody holds and nobody retired: its first offset and the one behind it."""
    first = max(state.next, bounds.earliest)
    taken = sorted([*state.retired, *((claim.first, claim.last) for claim in live)])
    for begin, last in taken:
        if begin > first:
            return first, min(begin, max(bounds.next, first))
        first = max(first, last + 1)
    return first, max(bounds.next, first)


def _settled(
    state: GroupState, acked: int | None, retired: Iterable[Range], claims: Iterable[Claim], *, following: int
) -> GroupState:
    """What was retired beyond a gap that is closed now belongs to what is acked."""
    left: list[Range] = []
    for first, last in sorted(retired):
        if last < following:
            continue
        if first <= following:
            following, acked = last + 1, last
        else:
            left.append((first, last))
    ordered = tuple(sorted(claims, key=lambda each: each.first))
    return replace(state, acked=acked, retired=tuple(left), claims=ordered)


def _joined(ranges: Iterable[Range]) -> tuple[Range, ...]:
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)
