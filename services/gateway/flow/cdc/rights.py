"""Who may read which tables, and of which places of the log that is sure."""

import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from services.gateway.core.cdc.grounds import EVERY_TABLE, Grounds, Sight, sighted, sights_since
from services.gateway.core.cdc.marks import NOWHERE, Doubt, doubt_of_right, may_be_lost
from services.gateway.core.cdc.subscription import Owner, Subscription
from services.gateway.errors import NotVisibleYet
from services.gateway.flow.cdc.fence import Fence
from services.gateway.flow.cdc.log import ChangeLog

# What PostgreSQL said is believed for so long, and not past a change of rights in the log.
RIGHTS_S = 5.0
# Attributes of roles that the gateway may not look at are taken for unchanged between looks that are this near.
NEAR_S = 2 * RIGHTS_S
MOST_RIGHTS = 20_000
MOST_DOUBTS = 8

# A role and tables; no tables for a service role.
_Key: TypeAlias = tuple[str, frozenset[int]]


class RightsCatalog(Protocol):
    async def readable(self, role: str, oids: Iterable[int]) -> dict[int, Grounds]: ...
    async def memberships(self, role: str) -> Grounds: ...


class Right(Struct, frozen=True):
    """What PostgreSQL said about a role and tables, when the log was at this generation."""

    generation: int
    until_s: float
    is_given: bool
    # The last seq that the log had then.
    asked: int = 0
    # The last generation at which it was given; where DDL may have taken it before, in the window.
    last_given: int = 0
    doubts: tuple[Doubt, ...] = ()
    # What it rests on beside that, all that was seen of this, and the last seq when it was last seen to be given.
    grounds: frozenset[str] = frozenset()
    sights: tuple[Sight, ...] = ()
    given_at: int = NOWHERE
    given_s: float = 0.0
    # Stands for attributes that cannot be looked at.
    unseen: str = ""


class Rights:
    def __init__(
        self,
        catalog: RightsCatalog,
        log: ChangeLog,
        *,
        fence: Fence,
        settle: Callable[[], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        self._catalog, self._log, self._fence, self._settle, self._clock = catalog, log, fence, settle, clock
        self._known: OrderedDict[_Key, Right] = OrderedDict()

    async def of(self, reader: Owner, tables: frozenset[int], *, anew: bool = False, at: int | None = None) -> Right:
        """As PostgreSQL said lately; `anew`: as it says now; `at`: as it said when the log had this seq already."""
        now_s, generation, asked = self._clock(), self._log.schema_generation, self._log.latest
        if reader.database_role is None or _is_by_token(reader):
            return Right(generation, now_s, reader.is_privileged)
        key = _key(reader, tables)
        known = self._known.get(key)
        if known is not None and not anew:
            is_lately = known.generation == generation and known.until_s > now_s
            if is_lately if at is None else known.is_given and known.asked >= at:
                return known
        await self._settle()
        right = Right(generation, now_s + RIGHTS_S, False, asked)
        grounds = await self._grounds(reader, tables)
        if grounds is None:
            known = self._known.get(key, right)
            right = replace(known, generation=generation, until_s=right.until_s, is_given=False, asked=asked)
        else:
            right = await self._given(key, right, grounds, now_s)
        self._keep(key, right)
        return right

    async def doubts(
        self, right: Right, subscription: Subscription, reader: Owner, tables: frozenset[int]
    ) -> tuple[Doubt, ...]:
        """Where events may be of a time without the right; a subscription was made with it."""
        if not right.sights:
            return right.doubts
        owner = subscription.owner
        is_own = (owner.name, owner.database_role) == (reader.name, reader.database_role)
        since = sights_since(right.sights, subscription.grounds if is_own else frozenset())
        found = [sight.doubt for sight in since if sight.doubt is not None]
        if len(found) < len(since):
            found.append(await self._before_first(_key(reader, tables), right.sights[0]))
        return (*right.doubts, *found)

    async def _before_first(self, key: _Key, first: Sight) -> Doubt:
        """Of the first sight: whatever the log had until now, once it has all that the sight could see."""
        if not await self._fence.passed():
            raise NotVisibleYet
        doubt = Doubt(NOWHERE, self._log.latest)
        known = self._known.get(key)
        if known is not None and known.sights and known.sights[0] is first:
            self._known[key] = replace(known, sights=(Sight(first.grounds, doubt), *known.sights[1:]))
        return doubt

    async def _grounds(self, reader: Owner, tables: frozenset[int]) -> dict[int, Grounds] | None:
        """None if the right is not given."""
        assert reader.database_role is not None
        if reader.is_privileged:
            return {EVERY_TABLE: await self._catalog.memberships(reader.database_role)}
        found = await self._catalog.readable(reader.database_role, tables)
        return found if found.keys() == tables else None

    async def _given(self, key: _Key, right: Right, grounds: dict[int, Grounds], now_s: float) -> Right:
        nothing = Right(0, 0.0, False)
        known = self._known.get(key, nothing)
        unseen = known.unseen
        if not unseen or now_s - known.given_s > NEAR_S:
            unseen = secrets.token_hex(8)
        names = frozenset(each.named(oid, "" if each.is_whole else unseen) for oid, each in grounds.items())
        has_changed = bool(known.sights) and known.sights[-1].grounds != names
        # Where it may have been lost, the log must first have all that the answer could see.
        is_fenced = has_changed or may_be_lost(self._log.marks.since(known.last_given), key[1])
        if is_fenced and not await self._fence.passed():
            raise NotVisibleYet
        # Another call may have been first.
        known = self._known.get(key, nothing)
        if known.sights and known.sights[-1].grounds != names and not is_fenced:
            raise NotVisibleYet
        return replace(
            right,
            is_given=True,
            last_given=max(right.generation, known.last_given),
            doubts=self._doubts_by_ddl(key, known, right.generation),
            grounds=names,
            sights=sighted(known.sights, names, Doubt(known.given_at, self._log.latest)),
            given_at=right.asked,
            given_s=now_s,
            unseen=unseen,
        )

    def _doubts_by_ddl(self, key: _Key, known: Right, generation: int) -> tuple[Doubt, ...]:
        if not key[1] or generation <= known.last_given:
            return known.doubts
        earliest = self._log.window.earliest
        found = doubt_of_right(self._log.marks.since(known.last_given), key[1])
        kept = tuple(doubt for doubt in known.doubts if doubt.after >= earliest)
        doubts = kept if found is None else (*kept, found)
        if len(doubts) > MOST_DOUBTS:
            doubts = (Doubt(doubts[0].before, doubts[1].after), *doubts[2:])
        return doubts

    def _keep(self, key: _Key, right: Right) -> None:
        self._known[key] = right
        self._known.move_to_end(key)
        while len(self._known) > MOST_RIGHTS:
            self._known.popitem(last=False)


def _is_by_token(reader: Owner) -> bool:
    return reader.is_privileged and not reader.is_login


def _key(reader: Owner, tables: frozenset[int]) -> _Key:
    assert reader.database_role is not None
    return reader.database_role, frozenset() if reader.is_privileged else tables
