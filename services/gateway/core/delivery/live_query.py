"""One live query as its subscribers on this gateway have it: where it stands, and who is how far behind."""

from collections.abc import Iterable, Iterator
from uuid import UUID

from proto.multiset import EMPTY, shifted_encoded
from proto.positions import ZERO_LSN, Lsn
from proto.streams.deltas import Standing, Verdict, judge, standing_after
from proto.streams.parts import Assembler
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_ERROR, DELTA_KIND_FULL, Delta
from services.gateway.core.difference import Net, change_of, net_of
from services.gateway.core.effects import Ask, Begin, Effect, End, Fan, Send
from services.gateway.core.parcel import Parcel, Wish, full_parcel, parcel_of
from services.gateway.core.ring import Ring, Rings
from services.gateway.core.subscriber import NOWHERE, Failure, Subscriber
from services.gateway.core.whole import LastWhole, Whole

# A table, column or schema is gone, or the right to read it (decisions 14 and 21): no later state will come.
ENDING = frozenset({"42P01", "42703", "3F000", "42501"})
# A result of which one may fill a connection.
LARGE_BYTES = 32 * 1024


class LiveQuery:
    """No rows: a hash of them, and the steps that someone still needs.

    Those in `current` hold the state at the head, by what makes their bytes differ; those `behind` hold an earlier one
    or, where their step is no longer in the ring, one that only a whole result brings forward.
    """

    def __init__(self, query_id: bytes, rings: Rings, wholes: LastWhole, *, max_rows: int) -> None:
        self.id, self._wholes, self._max_rows = query_id, wholes, max_rows
        self.parts = Assembler()
        self.ring = Ring(rings)
        self.current: dict[Wish, dict[UUID, Subscriber]] = {}
        self.behind: dict[UUID, Subscriber] = {}
        self.key_positions: tuple[int, ...] = ()
        # None: what the worker holds is not known, and only a whole result tells.
        self._standing: Standing | None = None
        self._begun = False
        self._hash = EMPTY
        self._rows = 0
        self._failure: Failure | None = None
        self._asked = False
        self._overdue = False

    @property
    def subscribers(self) -> list[Subscriber]:
        return [*(one for group in self.current.values() for one in group.values()), *self.behind.values()]

    @property
    def is_idle(self) -> bool:
        return not self.behind and not any(self.current.values())

    def join(self, newcomer: Subscriber) -> None:
        """It is behind everything until a whole result comes."""
        newcomer.query_id, newcomer.at = self.id, NOWHERE
        self.behind[newcomer.id] = newcomer

    def leave(self, subscriber: Subscriber) -> None:
        self.current.get(subscriber.wish, {}).pop(subscriber.id, None)
        if self.behind.pop(subscriber.id, None) is not None:
            self._trim()

    def pause(self, subscriber: Subscriber) -> None:
        self._fall_behind(subscriber, self.ring.head)
        subscriber.paused = subscriber.waits = True

    def resume(self, subscriber: Subscriber) -> None:
        """Nothing is sent; what was missed comes with the next change."""
        subscriber.paused = False
        if subscriber.at == self.ring.head:
            self._catch(subscriber)

    def apply(self, delta: Delta) -> Iterator[Effect]:
        """The next delta of the query."""
        if not self._begun:
            return  # first results are on their way, and stand behind it
        match judge(self._standing, delta):
            case Verdict.APPLY if delta.kind == DELTA_KIND_ERROR:
                yield from self._fail(delta)
            case Verdict.APPLY if delta.kind == DELTA_KIND_FULL:
                yield from self._replace(delta)
            case Verdict.APPLY if self._failure is None:
                yield from self._step(delta)
            case Verdict.APPLY | Verdict.RESYNC:
                yield from self._ask()

    def take(self, snapshot: Delta) -> Iterator[Effect]:
        """A whole result that one of our subscribers, or we ourselves, asked for."""
        if snapshot.kind == DELTA_KIND_ERROR:
            self._asked = False
            yield from self.apply(snapshot)
        elif self._failure is None and standing_after(snapshot) == self._standing:
            yield from self._stand(snapshot)
        elif judge(self._standing, snapshot) is Verdict.DROP:
            # Of an earlier state, and no step leads from it to ours: whoever came with it needs a later one.
            yield from self.drained(list(self.behind.values()))
        elif self._begun and self._failure is None and snapshot.state_hash == self._hash:
            yield from self._stand(snapshot)
        else:
            yield from self._replace(snapshot)

    def drained(self, subscribers: Iterable[Subscriber]) -> Iterator[Effect]:
        """These may be sent to again: what they missed goes out at once."""
        behind = [one for one in subscribers if one.id in self.behind]
        if self._failure is not None:
            yield from self._tell(self._failure, behind)
        else:
            yield from self._catch_up(behind)

    def ask_again(self) -> Iterator[Effect]:
        """Called at intervals: what was asked for an interval ago and has not come is asked for again."""
        if self._asked and self._overdue:
            yield Ask(self.id)
        self._overdue = self._asked

    def doubt(self) -> Iterator[Effect]:
        """Trust nothing but a whole result; if it is what we hold, nobody notices.

        One that cannot be trusted itself is asked for again only after a while: the next may be no better.
        """
        self._standing = None
        yield from self._ask()

    def _step(self, delta: Delta) -> Iterator[Effect]:
        net = net_of((delta.rows,))
        if shifted_encoded(self._hash, net.items()) != delta.state_hash:
            # What we hold is not what the worker holds.
            yield from self.doubt()
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
        yield from self._tell_current(net)
        self._wake()
        yield from self._catch_up(list(self.behind.values()))

    def _replace(self, delta: Delta) -> Iterator[Effect]:
        """The whole result, for everyone: no step leads to it."""
        whole = self._wholes.of(delta.rows)
        if whole.state_hash != delta.state_hash:
            yield from self.doubt()
            return
        self._move(delta)
        self._begun, self._asked, self._failure, self._rows = True, False, None, whole.count
        if whole.count > self._max_rows:
            yield from self._end_all(self._too_large())
            return
        self._let_congested_fall_behind(len(whole.rows))
        self.ring.skip()
        for wish, group in self.current.items():
            if group:
                yield Fan(full_parcel(whole.count, whole.rows, wish, self._lsn), list(group.values()))
        self._wake()
        yield from self._serve(whole)

    def _stand(self, snapshot: Delta) -> Iterator[Effect]:
        """The state that we know, whole: for those who hold none that leads to it."""
        whole = self._wholes.of(snapshot.rows)
        if not whole.state_hash == snapshot.state_hash == self._hash:
            yield from self.doubt()
            return
        self._move(snapshot)
        self._asked = False
        yield from self._serve(whole)

    def _serve(self, whole: Whole) -> Iterator[Effect]:
        """A large one goes out one by one: it may fill a connection on which another subscriber waits for it too."""
        large, parcels = len(whole.rows) > LARGE_BYTES, dict[Wish, Parcel]()
        to: dict[Wish, list[Subscriber]] = {}
        for one in [one for one in self.behind.values() if self._is_lost(one)]:
            if not one.may_be_sent_to:
                continue
            if not one.acked:
                one.acked = True
                yield Begin(one, bool(self.key_positions))
            self._catch(one)
            if one.wish not in parcels:
                parcels[one.wish] = full_parcel(whole.count, whole.rows, one.wish, self._lsn)
            if large:
                yield Fan(parcels[one.wish], [one])
            else:
                to.setdefault(one.wish, []).append(one)
        for wish, group in to.items():
            yield Fan(parcels[wish], group)

    def _fail(self, delta: Delta) -> Iterator[Effect]:
        """There is no state after: whoever holds one gets the next good state whole."""
        self._standing = standing_after(delta)
        failure = Failure(delta.error_sqlstate, delta.error_message)
        if failure.sqlstate in ENDING:
            yield from self._end_all(failure.message)
            return
        self._failure = failure
        for one in self.subscribers:
            self._fall_behind(one, self.ring.head)
        self.ring.skip()
        self._wake()
        yield from self._tell(failure, list(self.behind.values()))

    def _tell(self, failure: Failure, subscribers: Iterable[Subscriber]) -> Iterator[Effect]:
        for one in subscribers:
            if one.told == failure or not one.may_be_sent_to:
                continue
            if one.acked:
                one.told = failure
                yield Send(one.line, one.refusal(failure.message))
            else:
                yield from self._end(one, failure.message)

    def _tell_current(self, net: Net) -> Iterator[Effect]:
        change = change_of(net, self.key_positions)
        for wish, group in self.current.items():
            if group:
                yield Fan(parcel_of(change, wish, self._lsn), list(group.values()))

    def _catch_up(self, subscribers: Iterable[Subscriber]) -> Iterator[Effect]:
        """The net of what each missed; those who stand at the same step share it."""
        merged: dict[tuple[int, Wish], Parcel] = {}
        for one in subscribers:
            if not one.may_be_sent_to:
                continue
            if self._is_lost(one):
                if self._begun:
                    yield from self._ask()
                continue
            place = one.at, one.wish
            if place not in merged:
                net = net_of(self.ring.since(one.at) or ())
                merged[place] = parcel_of(change_of(net, self.key_positions), one.wish, self._lsn)
            self._catch(one)
            if merged[place].messages:
                yield Fan(merged[place], [one])
        self._trim()

    def _end_all(self, message: str) -> Iterator[Effect]:
        """Also those who are paused or do not read: after this nothing else would tell them."""
        for one in self.subscribers:
            yield from self._end(one, message)

    def _end(self, subscriber: Subscriber, message: str) -> Iterator[Effect]:
        """The Ack comes before everything that has the id (decision 4)."""
        if not subscriber.acked:
            yield Begin(subscriber, bool(self.key_positions))
        yield Send(subscriber.line, subscriber.refusal(message))
        yield End(subscriber.id)

    def _ask(self) -> Iterator[Effect]:
        if not self._asked:
            self._asked, self._overdue = True, False
            yield Ask(self.id)

    def _move(self, delta: Delta) -> None:
        self._standing, self._hash = standing_after(delta), delta.state_hash
        self.key_positions = tuple(delta.key_positions)

    def _wake(self) -> None:
        """Something has changed: those who were resumed wait no longer."""
        for one in self.behind.values():
            one.waits = one.paused

    def _let_congested_fall_behind(self, step_bytes: int) -> None:
        """Of those who share a connection that the step may fill all but one: they follow when there is room."""
        filled: set[str] = set()
        for group in self.current.values():
            for one in list(group.values()):
                if one.line.outlet.congested or one.line.id in filled:
                    self._fall_behind(one, self.ring.head)
                elif step_bytes > LARGE_BYTES:
                    filled.add(one.line.id)

    def _fall_behind(self, subscriber: Subscriber, at: int) -> None:
        if self.current.get(subscriber.wish, {}).pop(subscriber.id, None) is not None:
            subscriber.at = at
            self.behind[subscriber.id] = subscriber

    def _catch(self, subscriber: Subscriber) -> None:
        """It holds the state at the head now, or will when what goes out next has reached it."""
        del self.behind[subscriber.id]
        subscriber.waits, subscriber.told = False, None
        self.current.setdefault(subscriber.wish, {})[subscriber.id] = subscriber

    def _trim(self) -> None:
        self.ring.trim(one.at for one in self.behind.values())

    def _is_lost(self, subscriber: Subscriber) -> bool:
        return subscriber.at < self.ring.first

    @property
    def _lsn(self) -> Lsn:
        return ZERO_LSN if self._standing is None else self._standing.lsn

    def _too_large(self) -> str:
        return f"Result set too large: {self._rows} rows (max: {self._max_rows})"
