"""What the binary door makes of a session's live messages, and of what its client said when it connected (VR3)."""

import asyncio

import pytest

from proto.pgwire.framing import Framer
from proto.pgwire.frontend import Startup
from proto.pgwire.live import NO_SUBSCRIPTION as NOBODY
from proto.pgwire.live import Ack, Selective, Subscribe, decode_from_gateway, encode
from services.gateway.core.bounds import SubscribeLimits
from services.gateway.core.encoders.binary import BinaryEncoder
from services.gateway.core.encoders.partial_rows import PartialRowRule
from services.gateway.inbound.pg_port.binary_door import BinaryDoor, BinaryDoorParts, LiveOptions, options_of

LIMITS = SubscribeLimits(subscribes_per_s=100, subscribes_under_way=100, messages_per_s=100)
WITHOUT_PARTIAL = {"tidewire.messages": "F2,F3,F4"}


class Rest:
    """The session, delivery and subscribing in one: writes down what it is given."""

    connection_id = "c"

    def __init__(self):
        self.sent, self.encoders, self.opened = [], [], 0

    def send(self, data):
        self.sent.append(data)

    def open(self, connection_id, outlet):
        self.opened += 1

    async def subscribe(self, request, session, encoder, place):
        self.encoders.append(encoder)


def subscribed(parameters, *messages):
    """What became of these Subscribes of a client that connected with these parameters."""
    rest = Rest()
    parts = BinaryDoorParts(rest, rest, PartialRowRule(), LIMITS, lambda: None)
    door = BinaryDoor(rest, parts, asyncio.run, options=options_of(Startup(parameters)))
    framer = Framer()
    framer.feed(b"".join(map(encode, messages)))
    for frame in framer.frames():
        door.take(frame, 0)
    return rest


def statuses(rest):
    framer = Framer()
    framer.feed(b"".join(rest.sent))
    return [tuple(frame.body.rstrip(b"\0").split(b"\0")) for frame in framer.frames() if frame.type == ord("S")]


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        ({}, LiveOptions()),
        ({"options": "-c tidewire.lsn=on"}, LiveOptions(wants_lsn=True)),
        (
            {"options": "-c tidewire.key=on -ctidewire.messages=F2,F3,F4,f7"},
            LiveOptions(wants_key=True, messages=frozenset({0xF2, 0xF3, 0xF4, 0xF7})),
        ),
        ({"tidewire.messages": "F2 F3;F4", "tidewire.key": "off"}, LiveOptions(messages=frozenset({0xF2, 0xF3, 0xF4}))),
        ({"tidewire.messages": "F2,F9,nonsense,41"}, LiveOptions(messages=frozenset({0xF2, 0xF9}))),
    ],
)
def test_vr3_what_a_client_says_when_it_connects(parameters, options):
    assert options_of(Startup(parameters)) == options


def test_vr3_a_client_that_says_nothing_is_told_nothing_more_than_before():
    rest = subscribed({}, Subscribe("SELECT 1"))
    assert (rest.opened, rest.sent, rest.encoders) == (1, [], [BinaryEncoder(PartialRowRule())])
    assert rest.encoders[0].acknowledgement(bytes(16), 1, (0,)) == encode(Ack(NOBODY, 1))


def test_vr3_a_client_that_names_its_messages_is_told_once_which_of_them_are_spoken():
    rest = subscribed({"tidewire.messages": "F2,F3,F4,F7,FA"}, Subscribe("SELECT 1"), Subscribe("SELECT 2"))
    assert statuses(rest) == [(b"tidewire.messages", b"F2,F3,F4,F7")]


def test_vr3_a_client_that_does_not_know_partial_rows_never_gets_them():
    asks = Subscribe("SELECT 1", selective=Selective(enabled=True, max_changed_columns_ratio=1.0))
    rest = subscribed(WITHOUT_PARTIAL, Subscribe("SELECT 1"), asks)
    assert [encoder.rule.enabled for encoder in rest.encoders] == [False, False]
    assert [one.rule.enabled for one in subscribed({"tidewire.messages": "F7"}, asks).encoders] == [True]


def test_vr3_the_key_columns_stand_in_the_acknowledgement_of_who_asked_for_them():
    (encoder,) = subscribed({"tidewire.key": "on"}, Subscribe("SELECT 1")).encoders
    framer = Framer()
    framer.feed(encoder.acknowledgement(bytes(16), 2, (3, 0)) + encoder.acknowledgement(bytes(16), 2, ()))
    assert [decode_from_gateway(frame) for frame in framer.frames()] == [Ack(NOBODY, 2, (3, 0)), Ack(NOBODY, 2, ())]


def test_who_asked_for_the_key_shares_the_bytes_of_updates_with_who_did_not():
    rule = PartialRowRule()
    alike = {BinaryEncoder(rule, False, True), BinaryEncoder(rule, False, False)}
    assert (len(alike), len(alike | {BinaryEncoder(rule, True, False)})) == (1, 2)
