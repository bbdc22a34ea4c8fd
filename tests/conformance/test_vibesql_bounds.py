"""What a slow reader costs, and what a subscriber may learn that he is not shown."""

from pathlib import Path
from uuid import uuid4

from services.gateway.core.delivery.subscriptions import Subscriptions
from services.gateway.core.encoders.binary import BinaryEncoder
from services.gateway.core.encoders.partial_rows import PartialRowRule
from services.gateway.settings import Gateway
from tests.property.binary_client import BinaryClient
from tests.property.delivery_model import Data, Update, Worker
from tests.unit.gateway.delivery_harness import perform

DOCUMENT = Path(__file__).parents[2] / "docs" / "binary-door.md"
# V57: upstream's channel of messages for each subscriber, and the share of it from which on he counts as slow.
CHANNEL, SLOW_PERCENT = 64, 80


def test_v57_who_leaves_a_channel_of_messages_unread_gets_the_net_and_keeps_nobody_waiting():
    """Ours is bounded in bytes and merged: at upstream's mark, its end and far behind it nothing is lost."""
    for behind in (CHANNEL * SLOW_PERCENT // 100, CHANNEL + 1, Gateway().ring_steps):
        subscriptions, worker = Subscriptions(Gateway().delivery_limits), Worker()
        slow, other = BinaryClient(), BinaryClient()
        ids = {name: uuid4() for name in ("slow", "other")}
        for (name, subscription), client in zip(ids.items(), (slow, other), strict=True):
            subscriptions.open(name, client)
            subscriptions.add(subscription, name, BinaryEncoder(PartialRowRule()), tables=1)
            for record in worker.snapshot(subscription):
                assert perform(subscriptions.deliver(record)) == []
        slow.congested = True
        for number in range(behind):
            net = {(b"%d" % number, b"x"): 1}
            if number:
                net[(b"%d" % (number - 1), b"x")] = -1
            for record in worker.change(net):
                assert perform(subscriptions.deliver(record)) == []
            assert other.held[ids["other"]].rows == worker.rows
        assert slow.held[ids["slow"]].rows == {}
        assert 0 < subscriptions.ring_bytes <= Gateway().ring_bytes
        slow.congested = False
        assert perform(subscriptions.drained("slow")) == []
        assert slow.held[ids["slow"]].messages[2:] == [
            Data(ids["slow"], Update.INSERT, ((b"%d" % (behind - 1), b"x"),)),
        ]
        assert subscriptions.ring_bytes == 0


def test_v59_the_timing_side_channel_is_accepted_and_documented():
    section = DOCUMENT.read_text().partition("What a subscriber learns beside his rows")[2].partition("##")[0]
    assert "timing side channel, which is accepted" in section
