"""Whatever is delivered, however often and late, and whoever pauses or does not read: who is current holds the
query's state, and all that a client held on the way was committed.

V19, V27–V30, V32–V34, V42–V49, V53; decision 1.
"""

from collections import Counter
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proto.streams import parts
from services.gateway.core.delivery.effects import EndSubscription, RequestSnapshot, SendBatch
from services.gateway.core.delivery.ring import RingLimits
from services.gateway.core.delivery.subscriptions import DeliveryLimits, Subscriptions
from tests.property.delivery_model import Client, PlainEncoder, Worker
from tests.unit.gateway.delivery_harness import perform

OPTIONS = st.integers(0, 4)
VALUES = st.sampled_from([b"a", b"b", None, b""])
KEYS = st.sampled_from([b"1", b"2", b"3", b"4", b"5"])


class Told:
    """What the test knows of a subscription without asking the delivery core."""

    def __init__(self, client):
        self.client = client
        self.paused = False
        self.waits = False
        self.ended = False


class Delivery(RuleBasedStateMachine):
    """One query, some connections; every action is followed by looking at what each client holds.

    The door has no wire format: its messages are Python objects.
    """

    client_type = Client

    def encoder(self, wants_lsn, option):
        return PlainEncoder(wants_lsn, option)

    @initialize(
        keyed=st.booleans(),
        steps=st.integers(1, 6),
        ring_bytes=st.sampled_from([40, 200, 10_000]),
        total_bytes=st.sampled_from([100, 10_000]),
        begun=st.lists(st.tuples(st.booleans(), OPTIONS), min_size=1, max_size=3),
    )
    def begin(self, keyed, steps, ring_bytes, total_bytes, begun):
        self.worker = Worker(keyed=keyed)
        self.limits = RingLimits(steps=steps, bytes=ring_bytes, total_bytes=total_bytes)
        self.subscriptions = Subscriptions(DeliveryLimits(max_rows=30, rings=self.limits))
        self.clients, self.wants_lsn, self.told, self.expected = {}, {}, {}, {}
        self.asked, self.behind_gap, self.failed = False, False, False
        self.written, self.numbered, self.before_gap = [], 0, None
        for wants_lsn, option in begun:
            self.connect(wants_lsn)
            self._subscribe(f"c{len(self.clients) - 1}", option)
            self.answer_a_subscribe()

    # What the world does.

    @precondition(lambda self: len(self.clients) < 4)
    @rule(wants_lsn=st.booleans())
    def connect(self, wants_lsn):
        name, client = f"c{len(self.clients)}", self.client_type(keyed=self.worker.keyed)
        self.clients[name], self.wants_lsn[name] = client, wants_lsn
        self.subscriptions.open(name, client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), option=OPTIONS)
    def subscribe(self, data, option):
        self._subscribe(data.draw(st.sampled_from(sorted(self.clients))), option)

    def _subscribe(self, connection, option):
        subscription = self._number()
        encoder = self.encoder(self.wants_lsn[connection], option)
        self.subscriptions.add(subscription, connection, encoder, tables=1)
        self.expected[subscription] = connection

    @precondition(lambda self: self.expected)
    @rule()
    def answer_a_subscribe(self):
        subscription, connection = self.expected.popitem()
        if self.failed:
            self._deliver(self.worker.failed_snapshot(subscription))
            assert self.clients[connection].held[subscription].errors
            return
        self.told[subscription] = Told(self.clients[connection])
        # Recompute tells progress before it answers, so that readers can go on together.
        self._resynced()
        self._deliver(self.worker.change({}))
        self._deliver(self.worker.snapshot(subscription))

    @precondition(lambda self: self.asked)
    @rule()
    def answer_what_was_asked_for(self):
        self.asked = False
        if self.failed:
            self._deliver(self.worker.failed_snapshot(self._number()))
            return
        self._resynced()
        self._deliver(self.worker.change({}))
        self._deliver(self.worker.snapshot(self._number()))

    @precondition(lambda self: not self.failed)
    @rule(data=st.data(), times=st.integers(1, 4))
    def changes(self, data, times):
        for _ in range(times):
            self._change(data, lost=False)

    @precondition(lambda self: not self.failed)
    @rule(data=st.data(), seldom=st.sampled_from([False, False, True]))
    def lose_a_delta(self, data, seldom):
        self._change(data, lost=seldom)

    def _change(self, data, *, lost):
        net, before = self._net(data), Counter(self.worker.rows)
        records = self.worker.change(net)
        if lost:
            self.before_gap = self.before_gap if self.behind_gap else before
            self.behind_gap = True
            self._deliver(records[:-1])  # of one in parts, the end
            return
        if net and not self.behind_gap:
            self._changed()
        self._deliver(records)

    @rule(data=st.data())
    def whole_result(self, data):
        self.failed = self.behind_gap = False
        net = self._net(data)
        self.worker.change(net)
        self._changed()
        self._deliver(self.worker.full())

    @rule(message=st.sampled_from([None, None, "division by zero", "out of range"]))
    def fail(self, message):
        if message is None:
            return
        self.failed, self.behind_gap = True, False
        self._changed()
        self._deliver(self.worker.error(message=message))

    @precondition(lambda self: self.written)
    @rule(data=st.data())
    def repeat(self, data):
        """Fan-outs that began anew at an earlier offset, and may have died again before they came to the end."""
        begin = data.draw(st.integers(0, len(self.written) - 1))
        self._deliver(self.written[begin : begin + data.draw(st.sampled_from([1, 3, 1000]))], remember=False)

    @precondition(lambda self: self.written)
    @rule()
    def hear_a_worker_that_was_fenced_off(self):
        stale = Worker(keyed=self.worker.keyed, epoch=max(one.epoch for one in self.written) - 1, writer=1)
        stale.lsn = self.worker.lsn + 1000
        self._deliver(stale.full(rows=[(b"9", b"stale", b"x")]), remember=False)

    @rule()
    def take_over(self):
        self.worker.epoch += 1

    # What clients do.

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def pause(self, data):
        subscription = self._one(data)
        if self._acked(subscription):
            connection = self._connection(subscription)
            assert self.subscriptions.pause(subscription, connection) is not self.told[subscription].paused
            assert not self.subscriptions.pause(subscription, "another")
            self.told[subscription].paused = self.told[subscription].waits = True

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def resume(self, data):
        subscription = self._one(data)
        told = self.told[subscription]
        before = told.client.batches
        assert self.subscriptions.resume(subscription, self._connection(subscription)) is told.paused
        told.paused = False
        if not told.client.congested:
            self._drained(self._connection(subscription))
        assert told.client.batches == before

    @precondition(lambda self: len(self.told) > 2)
    @rule(data=st.data())
    def unsubscribe(self, data):
        subscription = self._one(data)
        assert self.subscriptions.remove(subscription, self._connection(subscription))
        del self.told[subscription]

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def stop_reading(self, data):
        self.clients[data.draw(st.sampled_from(sorted(self.clients)))].congested = True

    @precondition(lambda self: any(client.congested for client in self.clients.values()))
    @rule(data=st.data())
    def read_again(self, data):
        slow = sorted(name for name, client in self.clients.items() if client.congested)
        name = data.draw(st.sampled_from(slow))
        self.clients[name].congested = False
        self._drained(name)

    def _drained(self, name):
        """Who was resumed waits for a change, also if his client was slow."""
        before = {subscription: self._received(subscription) for subscription in self.told}
        self._perform(self.subscriptions.drained(name))
        assert all(self._received(one) == before[one] for one, told in self.told.items() if told.waits)

    @precondition(lambda self: self.told and not self.failed)
    @rule(data=st.data(), times=st.integers(1, 5))
    def sleep_through_changes(self, data, times):
        self.pause(data)
        self.changes(data, times)
        self.resume(data)
        self.changes(data, 1)

    @precondition(lambda self: self.clients and not self.failed)
    @rule(data=st.data(), times=st.integers(1, 5))
    def miss_changes(self, data, times):
        self.stop_reading(data)
        self.changes(data, times)
        self.read_again(data)

    # What must hold.

    @invariant()
    def whoever_is_current_holds_the_state(self):
        for subscription, told in getattr(self, "told", {}).items():
            held = told.client.held.get(subscription)
            if told.paused or told.waits or told.client.congested or self.asked or self.behind_gap or self.failed:
                continue
            assert held is not None and held.rows == self.worker.rows

    @invariant()
    def whatever_a_client_holds_was_committed(self):
        states = list(self.worker.states.values()) if hasattr(self, "worker") else []
        for client in getattr(self, "clients", {}).values():
            for held in client.held.values():
                assert held.rows is None or held.rows in states

    @invariant()
    def nothing_is_kept_for_nobody(self):
        if hasattr(self, "subscriptions"):
            assert self.subscriptions.ring_bytes <= min(self.limits.total_bytes, self.limits.bytes)
            if not any(t.paused or t.waits or t.client.congested for t in self.told.values()):
                assert self.subscriptions.ring_bytes == 0

    def teardown(self):
        """Once everyone reads again, is resumed, and something changes, everyone holds the result."""
        if not hasattr(self, "subscriptions"):
            return
        for name, client in self.clients.items():
            client.congested = False
            self._perform(self.subscriptions.drained(name))
        while self.expected:
            self.answer_a_subscribe()
        for subscription, told in self.told.items():
            self.subscriptions.resume(subscription, self._connection(subscription))
            told.paused = False
        self.failed = False
        self._deliver(self.worker.full())
        self._changed()
        self.behind_gap = False
        self._deliver(self.worker.change({(b"end", b"x", b"y"): 1}))
        if self.asked:
            self.answer_what_was_asked_for()
        self.whoever_is_current_holds_the_state()
        self.nothing_is_kept_for_nobody()

    def _net(self, data):
        net = {}
        for _ in range(data.draw(st.integers(1, 3))):
            row = (data.draw(KEYS), data.draw(VALUES), data.draw(VALUES))
            if self.worker.keyed:
                before = next((one for one in self.worker.rows if one[0] == row[0]), None)
                if any(one[0] == row[0] for one in net):
                    continue
                if before is not None:
                    net[before] = -1
                if before != row and (before is None or data.draw(st.booleans())):
                    net[row] = 1
            elif data.draw(st.booleans()) and self.worker.rows[row] + net.get(row, 0) > 0:
                net[row] = net.get(row, 0) - 1
            else:
                net[row] = net.get(row, 0) + 1
        net = {row: weight for row, weight in net.items() if weight}
        return net if self.worker.rows.total() + sum(net.values()) <= 30 else {}

    def _changed(self):
        for told in self.told.values():
            told.waits = told.paused

    def _deliver(self, records, remember=True):
        for record in records:
            if remember:
                self.written.append(record)
            self._perform(self.subscriptions.deliver(record))

    def _perform(self, effects):
        paused = {subscription for subscription, told in self.told.items() if told.paused}
        for effect in effects:
            others = perform([effect])
            match effect:
                case SendBatch(to=to):
                    assert not paused & {one.id for one in to}
                    for one in to:
                        client = one.connection.outlet
                        if self.wants_lsn[one.connection.id]:
                            assert client.held[one.id].rows == self.worker.states[client.lsn]
                case RequestSnapshot():
                    self.asked = True
                case EndSubscription(subscription_id=subscription):
                    self.told.pop(subscription, None)
            assert all(isinstance(one, RequestSnapshot | EndSubscription) for one in others)

    def _one(self, data) -> UUID:
        return data.draw(st.sampled_from(sorted(self.told)))

    def _number(self) -> UUID:
        """Not a random one: the same draws must lead to the same order."""
        self.numbered += 1
        return UUID(int=self.numbered)

    def _resynced(self):
        """A whole result closes a gap; that is a change if the state is another one than before it."""
        if self.behind_gap and self.worker.rows != self.before_gap:
            self._changed()
        self.behind_gap = False

    def _received(self, subscription):
        held = self.told[subscription].client.held.get(subscription)
        return 0 if held is None else len(held.messages)

    def _acked(self, subscription):
        return subscription in self.told[subscription].client.held

    def _connection(self, subscription):
        client = self.told[subscription].client
        return next(name for name, one in self.clients.items() if one is client)


class DeliveryInParts(Delivery):
    """The same with every record cut into parts of a row or two."""

    @initialize()
    def cut_small(self):
        self._part_bytes = parts.PART_BYTES
        parts.PART_BYTES = 40

    def teardown(self):
        try:
            super().teardown()
        finally:
            parts.PART_BYTES = getattr(self, "_part_bytes", parts.PART_BYTES)


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
TestDeliveryInParts = DeliveryInParts.TestCase
TestDeliveryInParts.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
