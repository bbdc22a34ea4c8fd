"""What a delivery means for each subscription."""

from collections import Counter
from uuid import UUID, uuid4

from proto.multiset import EMPTY, shifted
from proto.pgwire.framing import Framer
from proto.pgwire.live import NO_SUBSCRIPTION, Ack, Data, Refused, Update, decode_from_gateway
from proto.rows import encode_block
from proto.tidewire.v1.deltas_pb2 import (
    DELTA_KIND_ERROR,
    DELTA_KIND_FULL,
    DELTA_KIND_NET,
    DELTA_KIND_PROGRESS,
    Delta,
    DeltaRecord,
    Snapshot,
)
from proto.tidewire.v1.subscriptions_pb2 import Refusal, SubscriptionRecord
from services.gateway.core.switchboard import Ask, End, Send, Switchboard

QUERY_ID = bytes(range(16))


class Worker:
    """Writes what recompute would."""

    def __init__(self, *, epoch=1, writer=7):
        self.rows, self.lsn, self._epoch, self._writer = Counter(), 100, epoch, writer

    def snapshot(self, subscription, **fields):
        delta = self._delta(DELTA_KIND_FULL, dict(self.rows), 0, **fields)
        return self._record(snapshot=Snapshot(request_id=subscription.bytes, gateway_id="g", result=delta))

    def change(self, net, lost=0):
        from_lsn, self.lsn = self.lsn + lost, self.lsn + lost + 10
        self.rows.update({})
        for row, weight in net.items():
            self.rows[row] += weight
        self.rows = +self.rows
        return self._record(delta=self._delta(DELTA_KIND_NET if net else DELTA_KIND_PROGRESS, net, from_lsn))

    def _delta(self, kind, rows, from_lsn, **fields):
        return Delta(
            query_id=QUERY_ID,
            from_lsn=from_lsn,
            to_lsn=self.lsn,
            history=1,
            kind=kind,
            rows=encode_block(rows.items()),
            last=True,
            key_positions=[0],
            state_hash=shifted(EMPTY, self.rows.items()),
            **fields,
        )

    def _record(self, **body):
        return DeltaRecord(epoch=self._epoch, writer=self._writer, **body)


def sent(effects):
    """The messages among the effects, in order, and the rest."""
    framer, others = Framer(), []
    for effect in effects:
        framer.feed(effect.data) if isinstance(effect, Send) else others.append(effect)
    return [decode_from_gateway(frame) for frame in framer.frames()], others


def subscribed(board, worker, connection="c") -> UUID:
    subscription = uuid4()
    board.expect(subscription, connection, 1)
    messages, _ = sent(board.deliver(worker.snapshot(subscription)))
    assert [type(message) for message in messages] == [Ack, Data]
    return subscription


def test_a_change_comes_as_deletes_then_updates_then_inserts():
    board, worker = Switchboard(100), Worker()
    worker.rows.update([(b"1", b"a"), (b"2", b"a")])
    one = subscribed(board, worker)
    net = {(b"3", b"a"): 1, (b"2", b"a"): -1, (b"2", b"b"): 1, (b"1", b"a"): -1}
    assert sent(board.deliver(worker.change(net)))[0] == [
        Data(one, Update.DELETE, ((b"1", b"a"),)),
        Data(one, Update.UPDATE, ((b"2", b"b"),)),
        Data(one, Update.INSERT, ((b"3", b"a"),)),
    ]


def test_a_repeated_delta_is_sent_once():
    board, worker = Switchboard(100), Worker()
    subscribed(board, worker)
    record = worker.change({(b"1", b"a"): 1})
    assert len(sent(board.deliver(record))[0]) == 1
    assert sent(board.deliver(record)) == ([], [])


def test_a_gap_asks_once_for_a_whole_result_and_sends_the_net_of_it():
    board, worker = Switchboard(100), Worker()
    one = subscribed(board, worker)
    assert sent(board.deliver(worker.change({(b"1", b"a"): 1}, lost=5))) == ([], [Ask(QUERY_ID)])
    assert sent(board.deliver(worker.change({(b"2", b"a"): 1}))) == ([], [])
    messages, _ = sent(board.deliver(worker.snapshot(uuid4())))
    assert [(message.update, sorted(message.rows)) for message in messages] == [
        (Update.INSERT, [(b"1", b"a"), (b"2", b"a")])
    ]
    assert messages[0].subscription == one


def test_a_wrong_fold_is_noticed_by_its_hash():
    board, worker = Switchboard(100), Worker()
    subscribed(board, worker)
    worker.rows[b"9", b"hidden"] = 1
    assert sent(board.deliver(worker.change({(b"1", b"a"): 1}))) == ([], [Ask(QUERY_ID)])


def test_a_worker_that_was_fenced_off_is_not_heard():
    board, worker = Switchboard(100), Worker(epoch=2)
    subscribed(board, worker)
    stale = Worker(epoch=1, writer=8)
    assert sent(board.deliver(stale.change({(b"1", b"a"): 1}))) == ([], [])


def test_paused_means_the_next_change_carries_what_was_missed():
    board, worker = Switchboard(100), Worker()
    one, other = subscribed(board, worker), subscribed(board, worker, "d")
    board.pause(one, "c")
    board.pause(other, "not its connection")
    messages, _ = sent(board.deliver(worker.change({(b"1", b"a"): 1})))
    assert [message.subscription for message in messages] == [other]
    board.resume(one, "c")
    messages, _ = sent(board.deliver(worker.change({(b"1", b"a"): -1, (b"2", b"a"): 1})))
    assert Data(one, Update.INSERT, ((b"2", b"a"),)) in messages
    assert Data(other, Update.DELETE, ((b"1", b"a"),)) in messages


def test_a_result_over_the_limit_is_acknowledged_and_ended():
    board, worker, subscription = Switchboard(1), Worker(), uuid4()
    worker.rows.update([(b"1", b"a"), (b"2", b"a")])
    board.expect(subscription, "c", 3)
    messages, others = sent(board.deliver(worker.snapshot(subscription)))
    assert messages == [Ack(subscription, 3), Refused(subscription, "Result set too large: 2 rows (max: 1)")]
    assert (others, len(board)) == ([End(subscription)], 0)


def test_a_query_that_cannot_be_kept_is_acknowledged_and_ended():
    board, worker, subscription = Switchboard(1), Worker(), uuid4()
    board.expect(subscription, "c", 1)
    record = worker.snapshot(subscription, error_message="not supported yet: x")
    record.snapshot.result.kind = DELTA_KIND_ERROR
    messages, others = sent(board.deliver(record))
    assert messages == [Ack(subscription, 1), Refused(subscription, "not supported yet: x")]
    assert others == [End(subscription)]


def told(subscription, message):
    return SubscriptionRecord(subscription_id=subscription.bytes, gateway_id="g", refused=Refusal(message=message))


def test_a_subscription_that_the_registry_did_not_take_never_had_an_id():
    board, subscription = Switchboard(1), uuid4()
    board.expect(subscription, "c", 1)
    messages, others = sent(board.refuse(told(subscription, "Rate limited: retry after 5ms")))
    assert (messages, others) == ([Refused(NO_SUBSCRIPTION, "Rate limited: retry after 5ms")], [])
    assert len(board) == 0


def test_a_subscription_that_the_registry_ended_is_named():
    board, worker = Switchboard(100), Worker()
    one = subscribed(board, worker)
    assert sent(board.refuse(told(one, "ended"))) == ([Refused(one, "ended")], [])
    assert sent(board.refuse(told(one, "ended"))) == ([], [])


def test_a_first_result_for_a_subscription_that_is_over_ends_it_again():
    board, worker = Switchboard(100), Worker()
    one = subscribed(board, worker)
    board.remove(one, "c")
    assert sent(board.deliver(worker.snapshot(one))) == ([], [End(one)])
    assert sent(board.deliver(worker.snapshot(uuid4()))) == ([], [])


def test_pause_and_resume_say_whether_they_changed_anything():
    board, worker = Switchboard(100), Worker()
    one = subscribed(board, worker)
    asked = [board.resume(one, "c"), board.pause(one, "d"), board.pause(one, "c"), board.pause(one, "c")]
    assert [*asked, board.resume(one, "c")] == [False, False, True, False, True]
