"""One live query as its subscriptions on this gateway have it: the state it is at, and who is how far behind."""

from collections.abc import Iterable, Iterator
from uuid import UUID

from proto.multiset import EMPTY, shifted_encoded
from proto.positions import ZERO_LSN
from proto.streams.deltas import Standing, Verdict, judge, standing_after
from proto.streams.parts import Assembler
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_ERROR, DELTA_KIND_FULL, Delta
from services.gateway.core.delivery.difference import NetRows, change_of, net_of
from services.gateway.core.delivery.effects import (
    Acknowledge,
    Effect,
    EndSubscription,
    RequestSnapshot,
    SendBatch,
    SendRefusal,
)
from services.gateway.core.delivery.encoder import Batch, Encoder, Update
from services.gateway.core.delivery.ring import Ring, Rings
from services.gateway.core.delivery.subscription import NO_STEP, Subscription
from services.gateway.core.delivery.whole_result import LastWholeResult, WholeResult
from services.gateway.errors import Refusal, RefusalCode

# A table, column or schema is gone, or the right to read it (decisions 14 and 21): no later state will come.
ENDING_SQLSTATES = frozenset({"42P01", "42703", "3F000", "42501"})
# A result of which one may fill a connection.
LARGE_BYTES = 32 * 1024


class LiveQuery:
    """Holds no rows: a hash of them, and the steps that some subscription still needs.

    Subscriptions in `current` hold the state at the head, grouped by encoder; those in `behind` hold an earlier one or,
    where their step is no longer in the ring, one that only a whole result brings forward.
    """

    def __init__(self, query_id: bytes, rings: Rings, last_whole: LastWholeResult, *, max_rows: int) -> None:
        self.id, self._last_whole, self._max_rows = query_id, last_whole, max_rows
        self.parts = Assembler()
        self.ring = Ring(rings)
        self.current: dict[Encoder, dict[UUID, Subscription]] = {}
        self.behind: dict[UUID, Subscription] = {}
        self.key_positions: tuple[int, ...] = ()
        # None: what the worker holds is not known, and only a whole result tells.
        self._standing: Standing | None = None
        self._has_state = False
        self._hash = EMPTY
        self._rows = 0
        self._failure: Refusal | None = None
        self._snapshot_requested = False
        self._snapshot_overdue = False

    @property
    def subscriptions(self) -> list[Subscription]:
        return [*(one for group in self.current.values() for one in group.values()), *self.behind.values()]

    @property
    def is_idle(self) -> bool:
        return not self.behind and not any(self.current.values())

    def join(self, newcomer: Subscription) -> None:
        """It is behind everything until a whole result comes."""
        newcomer.query_id, newcomer.step = self.id, NO_STEP
        self.behind[newcomer.id] = newcomer

    def leave(self, subscription: Subscription) -> None:
        group = self.current.get(subscription.encoder)
        if group is not None:
            group.pop(subscription.id, None)
            if not group:
                # Clients choose options of their encoders: what nobody uses must not stay.
                del self.current[subscription.encoder]
        if self.behind.pop(subscription.id, None) is not None:
            self._trim()

    def pause(self, subscription: Subscription) -> None:
        self._fall_behind(subscription, self.ring.head)
        subscription.paused = subscription.awaits_change = True

    def resume(self, subscription: Subscription) -> None:
        """Nothing is sent; what was missed comes with the next change."""
        subscription.paused = False
        if subscription.step == self.ring.head:
            self._make_current(subscription)

    def apply(self, delta: Delta) -> Iterator[Effect]:
        """The next delta of the query."""
        if not self._has_state:
            return  # first results are on their way, and stand behind it
        match judge(self._standing, delta):
            case Verdict.APPLY if delta.kind == DELTA_KIND_ERROR:
                yield from self._fail(delta)
            case Verdict.APPLY if delta.kind == DELTA_KIND_FULL:
                yield from self._replace(delta)
            case Verdict.APPLY if self._failure is None:
                yield from self._step(delta)
            case Verdict.APPLY | Verdict.RESYNC:
                yield from self._request_snapshot()

    def take_snapshot(self, snapshot: Delta) -> Iterator[Effect]:
        """A whole result that one of our subscriptions, or we ourselves, asked for."""
        if snapshot.kind == DELTA_KIND_ERROR:
            self._snapshot_requested = False
            yield from self.apply(snapshot)
        elif self._failure is None and standing_after(snapshot) == self._standing:
            yield from self._confirm(snapshot)
        elif judge(self._standing, snapshot) is Verdict.DROP:
            # Of an earlier state, and no step leads from it to ours: who subscribed with it needs a later one.
            yield from self.drained(list(self.behind.values()))
        elif self._has_state and self._failure is None and snapshot.state_hash == self._hash:
            yield from self._confirm(snapshot)
        else:
            yield from self._replace(snapshot)

    def drained(self, subscriptions: Iterable[Subscription]) -> Iterator[Effect]:
        """These may be sent to again: what they missed goes out at once."""
        behind = [one for one in subscriptions if one.id in self.behind]
        if self._failure is not None:
            yield from self._send_failure(self._failure, behind)
        else:
            yield from self._catch_up(behind)

    def request_overdue_snapshot(self) -> Iterator[Effect]:
        """Called at intervals: what was requested an interval ago and has not come is requested again."""
        if self._snapshot_requested and self._snapshot_overdue:
            yield RequestSnapshot(self.id)
        self._snapshot_overdue = self._snapshot_requested

    def distrust(self) -> Iterator[Effect]:
        """Trust nothing but a whole result; if it is the state that we hold, nobody is sent anything.

        One that cannot be trusted itself is requested again only after a while: the next may be no better.
        """
        self._standing = None
        yield from self._request_snapshot()

    def _step(self, delta: Delta) -> Iterator[Effect]:
        net = net_of((delta.rows,))
        if shifted_encoded(self._hash, net.items()) != delta.state_hash:
            # What we hold is not what the worker holds.
            yield from self.distrust()
            return
        self._move(delta)
        if not net:
            return
        self._rows += sum(net.values())
        if self._rows > self._max_rows:
            yield from self._end_all(self._too_large())
            return
        self._let_congested_fall_behind(len(delta.rows))
        if any(not self._is_lost(one) for one in self.behind.values()):
            self.ring.append(delta.rows)
        else:
            self.ring.skip()
        yield from self._send_to_current(net)
        self._note_change()
        yield from self._catch_up(list(self.behind.values()))

    def _replace(self, delta: Delta) -> Iterator[Effect]:
        """The whole result, for everyone: no step leads to it."""
        whole = self._last_whole.of(delta.rows)
        if whole.state_hash != delta.state_hash:
            yield from self.distrust()
            return
        self._move(delta)
        self._has_state, self._snapshot_requested, self._failure, self._rows = True, False, None, whole.row_count
        if whole.row_count > self._max_rows:
            yield from self._end_all(self._too_large())
            return
        self._let_congested_fall_behind(len(whole.rows))
        self.ring.skip()
        for encoder, group in list(self.current.items()):
            if group:
                yield SendBatch(self._batch(whole, encoder), list(group.values()))
        self._note_change()
        yield from self._send_whole(whole)

    def _confirm(self, snapshot: Delta) -> Iterator[Effect]:
        """The state that we know, whole: for those who hold none that leads to it."""
        whole = self._last_whole.of(snapshot.rows)
        if not whole.state_hash == snapshot.state_hash == self._hash:
            yield from self.distrust()
            return
        self._move(snapshot)
        self._snapshot_requested = False
        yield from self._send_whole(whole)

    def _send_whole(self, whole: WholeResult) -> Iterator[Effect]:
        """A large one goes out one by one: it may fill a connection on which another subscription waits for it too."""
        large, batches = len(whole.rows) > LARGE_BYTES, dict[Encoder, Batch]()
        to: dict[Encoder, list[Subscription]] = {}
        for one in [one for one in self.behind.values() if self._is_lost(one)]:
            if not one.may_be_sent_to:
                continue
            if not one.acknowledged:
                one.acknowledged = True
                yield Acknowledge(one, self.key_positions)
            self._make_current(one)
            if one.encoder not in batches:
                batches[one.encoder] = self._batch(whole, one.encoder)
            if large:
                yield SendBatch(batches[one.encoder], [one])
            else:
                to.setdefault(one.encoder, []).append(one)
        for encoder, group in to.items():
            yield SendBatch(batches[encoder], group)

    def _fail(self, delta: Delta) -> Iterator[Effect]:
        """There is no state after it: subscriptions that hold an earlier one get the next good state whole."""
        self._standing = standing_after(delta)
        if delta.error_sqlstate in ENDING_SQLSTATES:
            yield from self._end_all(Refusal(RefusalCode.ENDED, delta.error_message, delta.error_sqlstate))
            return
        self._failure = failure_of(delta)
        for one in self.subscriptions:
            self._fall_behind(one, self.ring.head)
        self.ring.skip()
        self._note_change()
        yield from self._send_failure(self._failure, list(self.behind.values()))

    def _send_failure(self, failure: Refusal, subscriptions: Iterable[Subscription]) -> Iterator[Effect]:
        for one in subscriptions:
            if one.last_failure == failure or not one.may_be_sent_to:
                continue
            if one.acknowledged:
                one.last_failure = failure
                yield SendRefusal(one, failure)
            else:
                yield from self._end(one, failure)

    def _send_to_current(self, net: NetRows) -> Iterator[Effect]:
        change = change_of(net, self.key_positions)
        for encoder, group in list(self.current.items()):
            if group:
                yield SendBatch(self._batch(change, encoder), list(group.values()))

    def _catch_up(self, subscriptions: Iterable[Subscription]) -> Iterator[Effect]:
        """The net of what each missed; those who stand at the same step share it."""
        merged: dict[tuple[int, Encoder], Batch] = {}
        for one in subscriptions:
            if not one.may_be_sent_to:
                continue
            if self._is_lost(one):
                if self._has_state:
                    yield from self._request_snapshot()
                continue
            place = one.step, one.encoder
            if place not in merged:
                net = net_of(self.ring.since(one.step) or ())
                merged[place] = self._batch(change_of(net, self.key_positions), one.encoder)
            self._make_current(one)
            if not merged[place].is_empty:
                yield SendBatch(merged[place], [one])
        self._trim()

    def _end_all(self, refusal: Refusal) -> Iterator[Effect]:
        """Also those who are paused or do not read: after this nothing else would tell them."""
        for one in self.subscriptions:
            yield from self._end(one, refusal)

    def _end(self, subscription: Subscription, refusal: Refusal) -> Iterator[Effect]:
        """The acknowledgement comes before everything that names the subscription (decision 4)."""
        if not subscription.acknowledged:
            yield Acknowledge(subscription, self.key_positions)
        yield SendRefusal(subscription, refusal)
        yield EndSubscription(subscription.id)

    def _request_snapshot(self) -> Iterator[Effect]:
        if not self._snapshot_requested:
            self._snapshot_requested, self._snapshot_overdue = True, False
            yield RequestSnapshot(self.id)

    def _batch(self, update: Update, encoder: Encoder) -> Batch:
        return Batch(update, ZERO_LSN if self._standing is None else self._standing.lsn, encoder)

    def _move(self, delta: Delta) -> None:
        self._standing, self._hash = standing_after(delta), delta.state_hash
        self.key_positions = tuple(delta.key_positions)

    def _note_change(self) -> None:
        """Something has changed: those who were resumed wait no longer."""
        for one in self.behind.values():
            one.awaits_change = one.paused

    def _let_congested_fall_behind(self, step_bytes: int) -> None:
        """Of those who share a connection that the step may fill all but one: they follow when there is room."""
        filled: set[str] = set()
        for group in self.current.values():
            for one in list(group.values()):
                if one.connection.outlet.congested or one.connection.id in filled:
                    self._fall_behind(one, self.ring.head)
                elif step_bytes > LARGE_BYTES:
                    filled.add(one.connection.id)

    def _fall_behind(self, subscription: Subscription, step: int) -> None:
        if self.current.get(subscription.encoder, {}).pop(subscription.id, None) is not None:
            subscription.step = step
            self.behind[subscription.id] = subscription

    def _make_current(self, subscription: Subscription) -> None:
        """It holds the state at the head now, or will when what goes out next has reached it."""
        del self.behind[subscription.id]
        subscription.awaits_change, subscription.last_failure = False, None
        self.current.setdefault(subscription.encoder, {})[subscription.id] = subscription

    def _trim(self) -> None:
        self.ring.trim(one.step for one in self.behind.values())

    def _is_lost(self, subscription: Subscription) -> bool:
        return subscription.step < self.ring.first

    def _too_large(self) -> Refusal:
        message = f"Result set too large: {self._rows} rows (max: {self._max_rows})"
        return Refusal(RefusalCode.RESULT_TOO_LARGE, message)


def failure_of(delta: Delta) -> Refusal:
    """Why a query has no result for now."""
    return Refusal(RefusalCode.QUERY_FAILED, delta.error_message, delta.error_sqlstate)
