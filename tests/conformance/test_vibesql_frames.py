"""Every frame in the golden vectors, bytes to message and back."""

from uuid import UUID

import pytest

from proto.pgwire import frontend, live
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Framer
from tests.conformance.vectors import of_kind


def decoded(data):
    framer = Framer(limit_bytes=0x7FFFFFFF)
    framer.feed(data)
    return [frontend.decode(frame) for frame in framer.frames()]


def text(value):
    return None if value is None else value.decode()


def shown(message):
    """A message in the words of the vectors."""
    match message:
        case live.Subscribe():
            selective = message.selective
            return {
                "type": "Subscribe",
                "query": message.query,
                "params": [text(value) for value in message.parameters],
                "filter": message.filter,
                "selective": None
                if selective is None
                else {name: getattr(selective, name) for name in selective.__struct_fields__},
            }
        case frontend.Query():
            return {"type": "Query", "query": message.query}
        case frontend.Terminate():
            return {"type": "Terminate"}
        case live.Unsubscribe() | live.Pause() | live.Resume():
            name = {"Pause": "SubscriptionPause", "Resume": "SubscriptionResume"}.get(type(message).__name__)
            return {
                "type": name or "Unsubscribe",
                "subscription_id": message.subscription.hex,
                "response": "none",
            }


@of_kind("decode_frontend", "decode_frontend_stream")
def test_what_a_client_sends_is_understood(vector):
    """V8, V9, V10, V11, V17, V61: as far as the length goes and no further, whatever else is in the same read."""
    data, expect = bytes.fromhex(vector["hex"]), vector["expect"]
    if "error" in expect:
        with pytest.raises(MalformedMessage):
            decoded(data)
        return
    messages = [shown(message) for message in decoded(data)]
    wanted = expect if isinstance(expect, list) else [] if "need_more" in expect else [expect]
    assert len(messages) == len(wanted)
    for message, want in zip(messages, wanted, strict=True):
        assert {name: message.get(name) for name in want} == want


@of_kind("decode_frontend")
def test_live_messages_of_clients_are_encoded_to_the_same_bytes(vector):
    """V1, V2, V8, V9, V26, V27, V28: the last three have 20 bytes."""
    if vector["expect"].get("type") not in ("Subscribe", "Unsubscribe", "SubscriptionPause", "SubscriptionResume"):
        return
    data = bytes.fromhex(vector["hex"])
    (message,) = decoded(data)
    # An empty filter and a tail without flags may be left out, which is how we write them.
    again = live.encode(message)
    assert again == data or decoded(again) == [message]


def fields_of(vector):
    fields = vector["fields"]
    subscription = UUID(fields["subscription_id"])
    as_bytes = lambda value: None if value is None else value.encode()  # noqa: E731
    match fields["type"]:
        case "SubscriptionData":
            rows = tuple(tuple(map(as_bytes, row)) for row in fields["rows"])
            return live.Data(subscription, live.Update(fields["update_type"]), rows)
        case "SubscriptionError":
            return live.Refused(subscription, fields["message"])
        case "SubscriptionAck":
            return live.Ack(subscription, fields["table_count"])
        case "SubscriptionPartialData":
            rows = tuple(
                live.PartialRow(
                    row["total_columns"], dict(zip(row["present"], map(as_bytes, row["values"]), strict=True))
                )
                for row in fields["rows"]
            )
            return live.PartialData(subscription, rows)


@of_kind("encode_backend")
def test_what_a_gateway_sends_is_encoded_to_the_golden_bytes(vector):
    """V1, V2, V19, V31, V36, V42, V43."""
    assert live.encode(fields_of(vector)).hex() == vector["hex"]


@of_kind("encode_backend")
def test_the_golden_bytes_are_decoded_to_the_same_message(vector):
    framer = Framer()
    framer.feed(bytes.fromhex(vector["hex"]))
    assert [live.decode_from_gateway(frame) for frame in framer.frames()] == [fields_of(vector)]


@of_kind("reject_or_note")
def test_a_frame_with_a_wrong_length_is_never_a_message(vector):
    framer = Framer()
    framer.feed(bytes.fromhex(vector["hex"]))
    frame = framer.take()
    if frame is not None:
        with pytest.raises(MalformedMessage):
            live.decode_from_gateway(frame)


@of_kind("bitmap")
def test_the_bitmap_of_a_partial_row(vector):
    """V42: the lowest bit first."""
    assert live.bitmap(vector["total_columns"], frozenset(vector["present"])).hex() == vector["hex"]


ONE = UUID("a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (0xF0, live.Subscribe("SELECT 1")),
        (0xF1, live.Unsubscribe(ONE)),
        (0xF2, live.Data(ONE, live.Update.FULL, ())),
        (0xF3, live.Refused(ONE, "no")),
        (0xF4, live.Ack(ONE, 258)),
        (0xF5, live.Pause(ONE)),
        (0xF6, live.Resume(ONE)),
        (0xF7, live.PartialData(ONE, ())),
    ],
)
def test_v1_v2_v3_v6_each_message_has_its_code_a_length_without_it_and_its_id_in_network_order(code, message):
    data = live.encode(message)
    assert (data[0], int.from_bytes(data[1:5], "big")) == (code, len(data) - 1)
    assert code == 0xF0 or data[5:21] == ONE.bytes == bytes.fromhex("a1b2c3d4e5f60718293a4b5c6d7e8f90")
    assert code != 0xF4 or data[21:] == b"\x01\x02"


def test_v7_the_reserved_id_is_sixteen_zeroes():
    assert live.encode(live.Refused(live.NO_SUBSCRIPTION, "x"))[5:21] == bytes(16)


@pytest.mark.parametrize("length", ["7fffffff", "40000000"])
def test_v62_a_length_over_the_limit_is_refused_before_anything_is_waited_for(length):
    framer = Framer(limit_bytes=1 << 20)
    framer.feed(bytes.fromhex("f0" + length))
    with pytest.raises(MalformedMessage):
        framer.take()
