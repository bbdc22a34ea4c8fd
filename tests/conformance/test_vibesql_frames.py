"""V1–V12, V17, V19, V31, V36, V42, V43, V61: every frame in the golden vectors, bytes to message and back."""

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
    assert live.bitmap(vector["total_columns"], frozenset(vector["present"])).hex() == vector["hex"]
