"""What a slow reader costs, and what a subscriber may learn that he is not shown."""

from pathlib import Path
from uuid import uuid4

from proto.pgwire.live import Data, Update
from services.gateway.core.effects import Begin, Fan
from services.gateway.core.selective import Rule
from services.gateway.core.switchboard import Switchboard
from services.gateway.settings import Gateway
from tests.property.delivered import Client, Worker

DOCUMENT = Path(__file__).parents[2] / "docs" / "binary-door.md"
# V57: upstream's channel of messages for each subscriber, and the share of it from which on he counts as slow.
CHANNEL, SLOW_PERCENT = 64, 80


def perform(effects):
    """Nothing is asked for and nobody is dropped."""
    for effect in effects:
        match effect:
            case Fan(parcel=parcel, to=to):
                for one in to:
                    one.line.outlet.send(parcel.addressed(one.key))
            case Begin(subscriber=one):
                one.line.outlet.send(one.ack)
            case _:
                raise AssertionError(effect)


def test_v57_who_leaves_a_channel_of_messages_unread_gets_the_net_and_keeps_nobody_waiting():
    """Ours is bounded in bytes and merged: at upstream's mark, its end and far behind it nothing is lost."""
    for behind in (CHANNEL * SLOW_PERCENT // 100, CHANNEL + 1, Gateway().ring_steps):
        board, worker = Switchboard(Gateway().limits), Worker()
        slow, other = Client(), Client()
        ids = {name: uuid4() for name in ("slow", "other")}
        for (name, subscription), client in zip(ids.items(), (slow, other), strict=True):
            board.open(name, client, wants_lsn=False)
            board.expect(subscription, name, 1, Rule())
            for record in worker.snapshot(subscription):
                perform(board.deliver(record))
        slow.congested = True
        for number in range(behind):
            net = {(b"%d" % number, b"x"): 1}
            if number:
                net[(b"%d" % (number - 1), b"x")] = -1
            for record in worker.change(net):
                perform(board.deliver(record))
            assert other.held[ids["other"]].rows == worker.rows
        assert slow.held[ids["slow"]].rows == {}
        assert 0 < board.ring_bytes <= Gateway().ring_bytes
        slow.congested = False
        perform(board.drained("slow"))
        assert slow.held[ids["slow"]].messages[2:] == [
            Data(ids["slow"], Update.INSERT, ((b"%d" % (behind - 1), b"x"),)),
        ]
        assert board.ring_bytes == 0


def test_v59_the_timing_side_channel_is_accepted_and_documented():
    section = DOCUMENT.read_text().partition("What a subscriber learns beside his rows")[2].partition("##")[0]
    assert "timing side channel, which is accepted" in section
