"""What a delivery means for each subscription: V19–V20, V25–V30, V38–V39, V55–V56; decisions 1, 3–5, 14, 21."""

from collections import Counter
from uuid import uuid4

from proto.tidewire.v1.deltas_pb2 import FULL_REASON_REORDERED
from services.gateway.core.delivery.effects import EndSubscription, RequestSnapshot
from services.gateway.errors import Refusal as GatewayRefusal
from services.gateway.errors import RefusalCode
from tests.property.delivery_model import QUERY_ID, Ack, Data, Refused, Update, Worker
from tests.unit.gateway.delivery_harness import Exchange


def row(*values):
    return tuple(value.encode() for value in values)


A1, A2, B2, A3 = row("1", "a"), row("2", "a"), row("2", "b"), row("3", "a")


def test_v34_a_change_comes_as_deletes_then_updates_then_inserts():
    exchange = Exchange()
    exchange.worker.rows.update([A1, A2])
    one = exchange.subscribed()
    exchange.deliver(exchange.worker.change({A3: 1, A2: -1, B2: 1, A1: -1}))
    assert exchange.told(one) == [
        Data(one, Update.DELETE, (A1,)),
        Data(one, Update.UPDATE, (B2,)),
        Data(one, Update.INSERT, (A3,)),
    ]


def test_v20_an_empty_first_result_is_a_full_without_rows():
    exchange = Exchange()
    one = exchange.expect()
    exchange.deliver(exchange.worker.snapshot(one))
    assert exchange.told(one) == [Ack(one, 1), Data(one, Update.FULL, ())]


def test_v25_progress_without_rows_is_not_told():
    exchange = Exchange()
    one = exchange.subscribed()
    exchange.deliver(exchange.worker.change({}))
    exchange.deliver(exchange.worker.change({A1: 1}))
    assert exchange.told(one) == [Data(one, Update.INSERT, (A1,))]


def test_a_repeated_delta_is_sent_once():
    exchange = Exchange()
    one = exchange.subscribed()
    records = exchange.worker.change({A1: 1})
    exchange.deliver(records + records)
    assert len(exchange.told(one)) == 1


def test_a_gap_asks_once_and_everyone_gets_the_whole_result():
    exchange = Exchange()
    one, other = exchange.subscribed(), exchange.subscribed("d")
    exchange.worker.change({A1: 1})
    exchange.deliver(exchange.worker.change({A2: 1}))
    exchange.deliver(exchange.worker.change({A3: 1}))
    assert (exchange.told(one), exchange.did()) == ([], [RequestSnapshot(QUERY_ID)])
    exchange.deliver(exchange.worker.snapshot(uuid4()))
    for subscription in (one, other):
        assert exchange.told(subscription) == [Data(subscription, Update.FULL, (A1, A2, A3))]
    exchange.deliver(exchange.worker.change({A1: -1}))
    assert exchange.told(one) == [Data(one, Update.DELETE, (A1,))]


def test_what_was_asked_for_and_did_not_come_is_asked_for_again():
    exchange = Exchange()
    exchange.subscribed()
    exchange.worker.change({A1: 1})
    exchange.deliver(exchange.worker.change({A2: 1}))
    for wanted in ([RequestSnapshot(QUERY_ID)], [RequestSnapshot(QUERY_ID)]):
        assert exchange.did() == wanted
        exchange.perform(exchange.subscriptions.request_overdue_snapshots())
        exchange.perform(exchange.subscriptions.request_overdue_snapshots())
    exchange.did()
    exchange.deliver(exchange.worker.snapshot(uuid4()))
    exchange.perform(exchange.subscriptions.request_overdue_snapshots())
    exchange.perform(exchange.subscriptions.request_overdue_snapshots())
    assert exchange.did() == []


def test_deliveries_that_were_lost_are_made_good_in_silence_if_nothing_changed():
    exchange = Exchange()
    one = exchange.subscribed()
    exchange.perform(exchange.subscriptions.distrust_all())
    assert exchange.did() == [RequestSnapshot(QUERY_ID)]
    exchange.deliver(exchange.worker.snapshot(uuid4()))
    assert exchange.told(one) == []
    exchange.deliver(exchange.worker.change({A1: 1}))
    assert exchange.told(one) == [Data(one, Update.INSERT, (A1,))]


def test_a_wrong_fold_is_noticed_by_its_hash():
    exchange = Exchange()
    one = exchange.subscribed()
    exchange.worker.rows[row("9", "hidden")] = 1
    exchange.deliver(exchange.worker.change({A1: 1}))
    assert (exchange.told(one), exchange.did()) == ([], [RequestSnapshot(QUERY_ID)])


def test_a_whole_result_that_is_not_what_it_says_is_not_asked_for_at_once_again():
    exchange = Exchange()
    one = exchange.expect()
    damaged = exchange.worker.snapshot(one)
    damaged[0].snapshot.result.state_hash = bytes(16)[:-1] + b"x"
    exchange.deliver(damaged)
    assert exchange.did() == [RequestSnapshot(QUERY_ID)]
    again = exchange.worker.snapshot(uuid4())
    again[0].snapshot.result.state_hash = damaged[0].snapshot.result.state_hash
    exchange.deliver(again)
    assert (exchange.told(one), exchange.did()) == ([], [])
    exchange.deliver(exchange.worker.snapshot(uuid4()))
    assert exchange.told(one) == [Ack(one, 1), Data(one, Update.FULL, ())]


def test_a_worker_that_was_fenced_off_is_not_heard():
    exchange = Exchange()
    exchange.worker.epoch = 2
    one = exchange.subscribed()
    stale = Worker(epoch=1, writer=8)
    exchange.deliver(stale.change({A1: 1}))
    assert (exchange.told(one), exchange.did()) == ([], [])


def test_v27_v28_paused_means_the_next_change_carries_what_was_missed():
    exchange = Exchange()
    one, other = exchange.subscribed(), exchange.subscribed("d")
    assert exchange.subscriptions.pause(one, "c") and not exchange.subscriptions.pause(other, "c")
    exchange.deliver(exchange.worker.change({A1: 1}))
    assert exchange.told(one) == [] and exchange.told(other) == [Data(other, Update.INSERT, (A1,))]
    assert exchange.subscriptions.ring_bytes > 0
    exchange.subscriptions.resume(one, "c")
    assert exchange.told(one) == []
    exchange.deliver(exchange.worker.change({A1: -1, A2: 1}))
    assert exchange.told(one) == [Data(one, Update.INSERT, (A2,))]
    assert exchange.told(other) == [Data(other, Update.DELETE, (A1,)), Data(other, Update.INSERT, (A2,))]
    assert exchange.subscriptions.ring_bytes == 0


def test_v28_what_was_missed_and_cancels_out_is_not_told():
    exchange = Exchange()
    one = exchange.subscribed()
    exchange.subscriptions.pause(one, "c")
    exchange.deliver(exchange.worker.change({A1: 1}))
    exchange.subscriptions.resume(one, "c")
    exchange.deliver(exchange.worker.change({A1: -1}))
    assert exchange.told(one) == []
    exchange.deliver(exchange.worker.change({A2: 1}))
    assert exchange.told(one) == [Data(one, Update.INSERT, (A2,))]


def test_v28_a_reader_who_drains_after_a_resume_still_waits_for_the_next_change():
    exchange = Exchange()
    one = exchange.subscribed()
    exchange.subscriptions.pause(one, "c")
    exchange.deliver(exchange.worker.change({A1: 1}))
    exchange.subscriptions.resume(one, "c")
    exchange.perform(exchange.subscriptions.drained("c"))
    assert exchange.told(one) == []


def test_a_slow_reader_gets_the_net_as_soon_as_it_reads():
    exchange = Exchange()
    one, other = exchange.subscribed(), exchange.subscribed("d")
    exchange.client().congested = True
    for net in ({A1: 1}, {A2: 1}, {A1: -1}):
        exchange.deliver(exchange.worker.change(net))
    assert (exchange.told(one), len(exchange.told(other))) == ([], 3)
    exchange.client().congested = False
    exchange.perform(exchange.subscriptions.drained("c"))
    assert exchange.told(one) == [Data(one, Update.INSERT, (A2,))]
    assert (exchange.did(), exchange.subscriptions.ring_bytes) == ([], 0)


def test_a_slow_reader_who_falls_off_the_ring_gets_the_whole_result():
    exchange = Exchange(rings={"steps": 2})
    one = exchange.subscribed()
    exchange.client().congested = True
    for value in "abc":
        exchange.deliver(exchange.worker.change({row(value, "x"): 1}))
    assert exchange.did() == []
    exchange.client().congested = False
    exchange.perform(exchange.subscriptions.drained("c"))
    exchange.perform(exchange.subscriptions.drained("c"))
    assert (exchange.told(one), exchange.did()) == ([], [RequestSnapshot(QUERY_ID)])
    exchange.deliver(exchange.worker.snapshot(uuid4()))
    assert exchange.told(one) == [Data(one, Update.FULL, tuple(exchange.worker.rows))]


def test_one_who_is_paused_and_falls_off_the_ring_asks_at_the_first_change_after_it():
    exchange = Exchange(rings={"bytes": 30})
    one = exchange.subscribed()
    exchange.subscriptions.pause(one, "c")
    for value in "abc":
        exchange.deliver(exchange.worker.change({row(value, "x"): 1}))
    exchange.subscriptions.resume(one, "c")
    exchange.perform(exchange.subscriptions.drained("c"))
    assert exchange.did() == []
    exchange.deliver(exchange.worker.change({row("d", "x"): 1}))
    assert exchange.did() == [RequestSnapshot(QUERY_ID)]
    exchange.subscriptions.pause(one, "c")
    exchange.deliver(exchange.worker.snapshot(uuid4()))
    assert exchange.told(one) == []


def test_all_rings_together_are_bounded_and_the_heaviest_goes():
    exchange = Exchange(rings={"total_bytes": 100})
    one = exchange.subscribed()
    exchange.subscriptions.pause(one, "c")
    other_query = Worker(query_id=bytes(16))
    other = exchange.expect("d")
    exchange.deliver(other_query.snapshot(other))
    exchange.subscriptions.pause(other, "d")
    for value in "abc":
        exchange.deliver(exchange.worker.change({row(value, "x"): 1}))
    exchange.deliver(other_query.change({row("y" * 60, "x"): 1}))
    assert 0 < exchange.subscriptions.ring_bytes <= 100
    exchange.subscriptions.resume(one, "c")
    exchange.deliver(exchange.worker.change({row("d", "x"): 1}))
    assert len(exchange.told(one)[-1].rows) == 4
    exchange.subscriptions.resume(other, "d")
    exchange.deliver(other_query.change({row("z", "x"): 1}))
    assert exchange.did() == [RequestSnapshot(other_query._query_id)]


def test_v29_nothing_is_kept_for_who_has_gone():
    exchange = Exchange()
    one, other = exchange.subscribed(), exchange.subscribed("d")
    exchange.subscriptions.pause(one, "c")
    exchange.deliver(exchange.worker.change({A1: 1}))
    assert exchange.subscriptions.close("c") == [one]
    assert (exchange.subscriptions.ring_bytes, len(exchange.subscriptions)) == (0, 1)
    exchange.deliver(exchange.worker.change({A2: 1}))
    assert len(exchange.told(other)) == 3 - 1


def test_a_newcomer_whose_result_is_ahead_brings_the_others_forward():
    exchange = Exchange()
    one, paused = exchange.subscribed(), exchange.subscribed("d")
    exchange.subscriptions.pause(paused, "d")
    exchange.worker.change({A1: 1})
    newcomer = exchange.subscribed("e")
    assert exchange.told(one) == [Data(one, Update.FULL, (A1,))]
    assert (exchange.told(paused), exchange.told(newcomer), exchange.did()) == ([], [], [])
    exchange.subscriptions.resume(paused, "d")
    exchange.deliver(exchange.worker.change({A2: 1}))
    assert exchange.did() == [RequestSnapshot(QUERY_ID)]


def test_a_newcomer_whose_result_is_of_an_earlier_state_waits_for_a_later_one():
    exchange = Exchange()
    exchange.subscribed()
    newcomer = exchange.expect("d")
    early = exchange.worker.snapshot(newcomer)
    exchange.deliver(exchange.worker.change({A1: 1}))
    exchange.deliver(early)
    assert (exchange.told(newcomer), exchange.did()) == ([], [RequestSnapshot(QUERY_ID)])
    exchange.deliver(exchange.worker.snapshot(uuid4()))
    assert exchange.told(newcomer) == [Ack(newcomer, 1), Data(newcomer, Update.FULL, (A1,))]


def test_a_newcomer_who_does_not_read_gets_ack_and_result_when_it_does():
    exchange = Exchange()
    newcomer = exchange.expect()
    exchange.client().congested = True
    exchange.deliver(exchange.worker.snapshot(newcomer))
    exchange.perform(exchange.subscriptions.give_up(newcomer, GatewayRefusal(RefusalCode.TIMED_OUT, "too late")))
    assert exchange.subscriptions.awaits_first_result(newcomer) and exchange.told(newcomer) == []
    exchange.client().congested = False
    exchange.perform(exchange.subscriptions.drained("c"))
    assert exchange.did() == [RequestSnapshot(QUERY_ID)]
    exchange.deliver(exchange.worker.snapshot(uuid4()))
    assert exchange.told(newcomer) == [Ack(newcomer, 1), Data(newcomer, Update.FULL, ())]


def test_a_whole_result_keeps_its_order_and_its_doubles():
    """Decision 3: a pure change of order comes as a whole result."""
    exchange = Exchange(keyed=False)
    exchange.worker.rows.update([A1, A2])
    one = exchange.subscribed()
    exchange.worker.rows = Counter([A2, A1, A2])
    exchange.deliver(exchange.worker.full(FULL_REASON_REORDERED))
    assert exchange.told(one) == [Data(one, Update.FULL, (A2, A2, A1))]


def test_v36_an_error_is_told_once_and_the_next_good_state_is_whole():
    exchange = Exchange()
    one, paused = exchange.subscribed(), exchange.subscribed("d")
    exchange.subscriptions.pause(paused, "d")
    exchange.deliver(exchange.worker.error(message="division by zero"))
    exchange.deliver(exchange.worker.error(message="division by zero"))
    assert exchange.told(one) == [Refused(one, "division by zero")]
    assert (exchange.told(paused), exchange.did()) == ([], [])
    exchange.deliver(exchange.worker.full(rows=[A1]))
    assert exchange.told(one) == [Data(one, Update.FULL, (A1,))]
    assert exchange.told(paused) == []
    exchange.subscriptions.resume(paused, "d")
    exchange.deliver(exchange.worker.full(rows=[A2]))
    assert exchange.told(paused) == [Data(paused, Update.FULL, (A2,))]


def test_an_error_waits_for_a_reader_who_does_not_read():
    exchange = Exchange()
    one = exchange.subscribed()
    exchange.client().congested = True
    for _ in range(3):
        exchange.deliver(exchange.worker.error())
        exchange.deliver(exchange.worker.full())
    exchange.deliver(exchange.worker.error())
    assert exchange.told(one) == []
    exchange.client().congested = False
    exchange.perform(exchange.subscriptions.drained("c"))
    assert exchange.told(one) == [Refused(one, "division by zero")]


def test_v38_v39_a_dropped_table_and_a_lost_right_end_the_subscription():
    """Decisions 14 and 21; also of one who is paused, who would never learn of it otherwise."""
    for sqlstate in ("42P01", "42703", "3F000", "42501"):
        exchange = Exchange()
        one, paused = exchange.subscribed(), exchange.subscribed("d")
        exchange.subscriptions.pause(paused, "d")
        exchange.deliver(exchange.worker.error(sqlstate, "it is over"))
        assert exchange.told(one) == [Refused(one, "it is over")]
        assert exchange.told(paused) == [Refused(paused, "it is over")]
        assert (exchange.did(), len(exchange.subscriptions)) == ([EndSubscription(one), EndSubscription(paused)], 0)


def test_v55_v56_a_first_result_over_the_limit_is_acknowledged_and_ended():
    exchange = Exchange(max_rows=1)
    exchange.worker.rows.update([A1, A2])
    one = exchange.expect(tables=3)
    exchange.deliver(exchange.worker.snapshot(one))
    assert exchange.told(one) == [Ack(one, 3), Refused(one, "Result set too large: 2 rows (max: 1)")]
    assert (exchange.did(), len(exchange.subscriptions)) == ([EndSubscription(one)], 0)


def test_v55_v56_a_result_that_grows_over_the_limit_ends():
    exchange = Exchange(max_rows=1)
    one = exchange.subscribed()
    exchange.deliver(exchange.worker.change({A1: 1}))
    exchange.deliver(exchange.worker.change({A2: 1}))
    assert exchange.told(one) == [
        Data(one, Update.INSERT, (A1,)),
        Refused(one, "Result set too large: 2 rows (max: 1)"),
    ]
    assert (exchange.did(), len(exchange.subscriptions)) == ([EndSubscription(one)], 0)


def test_a_query_that_cannot_be_kept_is_acknowledged_and_ended():
    exchange = Exchange()
    one = exchange.expect()
    exchange.deliver(exchange.worker.failed_snapshot(one, message="not supported yet: x"))
    assert exchange.told(one) == [Ack(one, 1), Refused(one, "not supported yet: x")]
    assert exchange.did() == [EndSubscription(one)]


def test_the_lsn_of_the_state_closes_each_batch_for_those_who_want_it():
    exchange = Exchange()
    client = exchange.client("c", wants_lsn=True)
    one = exchange.subscribed()
    exchange.subscribed("d")
    assert client.lsn == exchange.worker.lsn
    exchange.subscriptions.pause(one, "c")
    exchange.deliver(exchange.worker.change({A1: 1}))
    assert client.lsn == exchange.worker.lsn - 10
    exchange.subscriptions.resume(one, "c")
    exchange.deliver(exchange.worker.change({A2: 1}))
    assert (client.lsn, exchange.client("d").lsn) == (exchange.worker.lsn, None)


def test_v30_pause_and_resume_say_whether_they_changed_anything():
    exchange = Exchange()
    one = exchange.subscribed()
    all_of = exchange.subscriptions
    asked = [all_of.resume(one, "c"), all_of.pause(one, "d"), all_of.pause(one, "c"), all_of.pause(one, "c")]
    assert [*asked, all_of.resume(one, "c"), all_of.pause(uuid4(), "c")] == [False, False, True, False, True, False]
