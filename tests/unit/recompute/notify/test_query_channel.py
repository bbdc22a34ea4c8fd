"""One registered query on the channel: messages, seq and what is told of breaks (P10 to P27)."""

import json
from collections import Counter

import pytest

from proto.tidewire.v1.notifications_pb2 import NotificationKind
from services.recompute.core.notify import messages
from services.recompute.core.notify.json_values import TEXT, TypeShape
from services.recompute.core.notify.query_channel import Evaluated, QueryChannel, Shown
from services.recompute.core.notify.registration import Registration, read_registration
from services.recompute.core.notify.tails import Tail
from tests.conformance.pg_reactive import of_kind

NUMBER = TypeShape("number")
ORDERS = Shown((b"k",), (23, 25, 1700), (("id", NUMBER), ("status", TEXT), ("amount", NUMBER)))
WIDER = Shown((b"k", b"x"), (23, 25, 1700), ORDERS.columns)
READS = frozenset({7})


def row(number, status="active", amount="5"):
    return (str(number).encode(), status.encode(), amount.encode())


class World:
    """A registered query whose result a test changes."""

    def __init__(self, *, mode="delta", tail=None, channel="pgr"):
        self.rows = Counter()
        self.channel = QueryChannel(Registration("active_orders", 4, "SELECT 1", mode), channel, tail)

    def evaluate(self, net=(), *, touched=True, shown=ORDERS, is_whole=False):
        for changed, weight in net:
            self.rows[changed] += weight
        self.rows = +self.rows
        told = self.channel.touched(1) if touched else None
        now = Evaluated(rows=self.rows, net=None if is_whole else list(net), state_hash=b"h", lsn=1, shown=shown)
        return self.channel.evaluated(now, READS) or told


def kind(told):
    return None if told is None else NotificationKind.Name(told.kind).removeprefix("NOTIFICATION_KIND_").lower()


@pytest.fixture
def world():
    made = World()
    assert kind(made.evaluate(touched=False)) == "base"
    return made


def test_p10_p11_the_bytes_of_the_document(world):
    told = world.evaluate([(row(42, amount="149.99"), 1)])
    assert told.payload == (
        b'{"query_id":"active_orders","seq":1,"gen":4,'
        b'"inserted":[{"id":42,"status":"active","amount":149.99}],"deleted":[]}'
    )


@of_kind("channel_message")
def test_the_keys_of_a_message_and_their_order(vector):
    """P10, P16, P21, P22: made with the numbers of the vector, it has its keys in its order, and no others."""
    wanted = vector["obj"]
    name, gen, seq = wanted["query_id"], wanted["gen"], wanted.get("seq", 0)
    rows = [[json.dumps(one, separators=(",", ":")) for one in wanted.get(key, [])] for key in ("inserted", "deleted")]
    made = {
        None: lambda: messages.delta(name, seq, gen, *rows),
        "overflow": lambda: messages.overflow(name, seq, gen),
        "invalidated": lambda: messages.invalidated(name, seq, gen),
        "resubscribed": lambda: messages.resubscribed(name, gen),
    }[wanted.get("type")]()
    assert made == json.dumps(wanted, separators=(",", ":")).encode()


def test_p12_an_update_is_the_old_row_deleted_and_the_new_one_inserted(world):
    world.evaluate([(row(1), 1)])
    told = world.evaluate([(row(1), -1), (row(1, amount="6"), 1)])
    assert b'"inserted":[{"id":1,"status":"active","amount":6}]' in told.payload
    assert b'"deleted":[{"id":1,"status":"active","amount":5}]' in told.payload


def test_p13_p15_p16_only_what_was_touched_consumes_a_seq(world):
    assert world.evaluate(touched=False) is None
    assert world.channel.seq == 0
    silent = world.evaluate()
    assert (kind(silent), silent.seq, silent.payload) == ("silent", 1, b"")


def test_p14_duplicates_collapse_and_equal_numbers_are_equal(world):
    world.evaluate([(row(1, amount="1.0"), 1)])
    assert kind(world.evaluate([(row(1, amount="1.0"), 1)])) == "silent"
    assert kind(world.evaluate([(row(1, amount="1.0"), -2), (row(1, amount="1.00"), 1)])) == "silent"
    told = world.evaluate([(row(1, amount="1.00"), -1)])
    assert b'"deleted":[{"id":1,"status":"active","amount":1.0}]' in told.payload


@of_kind("budget")
def test_p17_the_budget_of_a_channel(vector):
    for case in vector["cases"]:
        assert messages.budget(case["channel"]) == case["max_payload"]


@of_kind("overflow_boundary")
def test_p16_p17_p19_p20_a_delta_over_the_budget_is_an_overflow_with_its_own_seq(vector):
    for case in vector["cases"]:
        made = World(channel=vector["channel"])
        made.evaluate(touched=False)
        empty = len(messages.delta("active_orders", 1, 4, ['{"id":1,"status":"","amount":5}'], []))
        told = made.evaluate([(row(1, status="x" * (case["serialized_bytes"] - empty)), 1)])
        assert (kind(told), told.seq) == (case["expect"], 1)
        assert kind(made.evaluate([(row(2), 1)])) == "delta" and made.channel.seq == 2


def test_the_budget_counts_bytes_and_not_letters(world):
    assert kind(world.evaluate([(row(1, status="ü" * 4000), 1)])) == "overflow"


def test_p18_other_columns_are_an_overflow_and_then_go_on(world):
    told = world.evaluate([], shown=WIDER, is_whole=True)
    assert (kind(told), told.seq) == ("overflow", 1)
    assert kind(world.evaluate([(row(2), 1)], shown=WIDER)) == "delta"


def test_p21_mode_notify_tells_each_touch_and_no_rows():
    made = World(mode="notify")
    made.evaluate(touched=False)
    assert made.channel.touched(9).payload == (b'{"type":"invalidated","query_id":"active_orders","seq":1,"gen":4}')
    assert made.evaluate([(row(1), 1)], touched=False) is None


def test_p22_p27_resubscribed_has_the_gen_and_no_seq(world):
    assert world.channel.resubscribed().payload == b'{"type":"resubscribed","query_id":"active_orders","gen":4}'


def test_p26_a_new_owner_goes_on_exactly_where_the_state_is_known():
    made = World(tail=Tail(4, 16, b"h", is_failed=False))
    made.channel.continued({row(1): 1}, ORDERS)
    told = made.evaluate([(row(1), -1)], touched=False)
    assert (kind(told), told.seq) == ("delta", 17)


@pytest.mark.parametrize("tail", [Tail(4, 16, b"other", is_failed=False), Tail(4, 16, b"h", is_failed=True)])
def test_p26_a_new_owner_that_does_not_know_the_state_tells_an_overflow(tail):
    told = World(tail=tail).evaluate([(row(1), 1)], touched=False)
    assert (kind(told), told.seq) == ("overflow", 17)


def test_p26_p29_a_new_registration_draws_on_the_seq_of_the_one_before():
    made = World(tail=Tail(3, 16, b"h", is_failed=False))
    assert kind(made.evaluate(touched=False)) == "base"
    assert made.evaluate([(row(1), 1)]).seq == 17


def test_what_changed_before_the_first_result_is_told_as_an_overflow():
    made = World()
    made.channel.changed_before({7})
    assert kind(made.evaluate(touched=False)) == "overflow"


def test_a_failure_is_told_once_and_its_end_is_an_overflow(world):
    assert kind(world.channel.failed("22012")) == "failed"
    assert world.channel.failed("22012") is None
    assert kind(world.evaluate([(row(1), 1)])) == "overflow"


@pytest.mark.parametrize("mark", [b"{", b"[]", b'{"query_id":1,"gen":2}', b"\xff"])
def test_a_mark_that_cannot_be_read_is_none(mark):
    assert read_registration(mark) is None
