"""The client's own codec over the golden vectors: V1–V12, V17, V19, V31, V36, V42, V43, V53, V61.

It shares no line with the gateway's codec in proto/pgwire, so that the vectors check both.
"""

import json
from pathlib import Path
from uuid import UUID

import pytest
from tidewire.errors import ProtocolViolated
from tidewire.frames import Framer
from tidewire.messages import (
    Ack,
    Data,
    Failed,
    Partial,
    PartialData,
    PartialRow,
    Pause,
    Resume,
    Subscribe,
    Unsubscribe,
    Update,
    decode,
    encode,
    places,
)
from tidewire.retry import Retry, verdict_of

VECTORS = json.loads((Path(__file__).parents[3] / "proto" / "golden" / "vibesql.json").read_text())["vectors"]


def of_kind(*kinds, where=lambda vector: True):
    chosen = [vector for vector in VECTORS if vector["kind"] in kinds and where(vector)]
    assert chosen
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector["id"])


def data_of(text):
    return None if text is None else text.encode()


def message_of(fields):
    """A client's message in the vectors' words."""
    match fields["type"]:
        case "Subscribe":
            selective = fields.get("selective")
            return Subscribe(
                fields["query"],
                tuple(map(data_of, fields["params"])),
                fields["filter"],
                Partial(**selective) if selective else None,
            )
        case "Unsubscribe":
            return Unsubscribe(UUID(fields["subscription_id"]))
        case "SubscriptionPause":
            return Pause(UUID(fields["subscription_id"]))
        case "SubscriptionResume":
            return Resume(UUID(fields["subscription_id"]))


def is_live(vector):
    return vector["expect"].get("type", "").startswith(("Subscri", "Unsubscri"))


def without_zeroes(golden):
    """No filter and no flags may be written as zeroes, at most three; we say it by leaving them out."""
    for count in range(4):
        body = golden[5:].removesuffix(bytes(count))
        yield golden[:1] + (len(body) + 4).to_bytes(4, "big") + body


@of_kind("decode_frontend", where=is_live)
def test_what_a_client_sends_has_the_golden_bytes(vector):
    golden = bytes.fromhex(vector["hex"])
    encoded = encode(message_of({"params": [], "filter": None, **vector["expect"]}))
    assert encoded == golden or encoded in without_zeroes(golden)


def backend_message(vector):
    fields = vector["fields"]
    subscription = UUID(fields["subscription_id"])
    match fields["type"]:
        case "SubscriptionData":
            rows = tuple(tuple(map(data_of, row)) for row in fields["rows"])
            return Data(subscription, Update(fields["update_type"]), rows)
        case "SubscriptionError":
            return Failed(subscription, fields["message"])
        case "SubscriptionAck":
            return Ack(subscription, fields["table_count"])
        case "SubscriptionPartialData":
            rows = (
                PartialRow(row["total_columns"], dict(zip(row["present"], map(data_of, row["values"]), strict=True)))
                for row in fields["rows"]
            )
            return PartialData(subscription, tuple(rows))


def decoded(data, cut=None):
    framer = Framer()
    found = []
    for piece in (data,) if cut is None else (data[:cut], data[cut:]):
        framer.feed(piece)
        found += [decode(frame) for frame in framer.frames()]
    return found


@of_kind("encode_backend")
def test_what_a_gateway_sends_is_understood_however_it_is_cut(vector):
    data = bytes.fromhex(vector["hex"])
    for cut in range(len(data)):
        assert decoded(data, cut) == [backend_message(vector)]


@of_kind("reject_or_note")
def test_a_frame_with_a_wrong_length_is_never_a_message(vector):
    try:
        assert decoded(bytes.fromhex(vector["hex"])) == []
    except ProtocolViolated as refused:
        assert str(refused)


@of_kind("bitmap")
def test_a_bitmap_names_its_columns(vector):
    assert places(vector["total_columns"], bytes.fromhex(vector["hex"])) == vector["present"]


@of_kind("client_merge")
def test_a_partial_row_over_the_one_held(vector):
    values = dict(zip(vector["bitmap"], vector["values"], strict=True))
    assert list(PartialRow(len(vector["cached"]), values).over(tuple(vector["cached"]))) == vector["expect"]


@of_kind("error_class")
def test_words_tell_whether_trying_again_may_help(vector):
    assert verdict_of(vector["message"]).value == vector["expect"]


@of_kind("retry_backoff_ms")
def test_delays_double_up_to_the_cap(vector):
    policy = vector["policy"]
    retry = Retry(
        first_s=policy["base_delay_ms"] / 1000,
        cap_s=policy["max_delay_ms"] / 1000,
        factor=policy["backoff_multiplier"],
        attempts=policy["max_retries"],
    )
    delays_ms = {attempt: retry.whole_delay_s(int(attempt)) * 1000 for attempt in vector["expect"]}
    assert delays_ms == pytest.approx(vector["expect"])
    whole_s = retry.whole_delay_s(0)
    assert [retry.delay_s(0, lambda: 0.0), retry.delay_s(0, lambda: 1.0)] == [whole_s / 2, whole_s]


def test_the_documents_policy_is_the_default():
    assert Retry() == Retry(first_s=1.0, cap_s=30.0, factor=2.0, attempts=3)


@pytest.mark.parametrize("length", [-1, 0, 3, 0x7FFFFFFF])
def test_an_impossible_length_is_refused_at_once(length):
    framer = Framer()
    framer.feed(b"\xf2" + length.to_bytes(4, "big", signed=True))
    with pytest.raises(ProtocolViolated):
        framer.take()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0" * 15,
        b"\0" * 16 + b"\x05\0\0\0\0",
        b"\0" * 16 + b"\0\xff\xff\xff\xff",
        b"\0" * 16 + b"\1\0\0\0\1\xff\xff",
    ],
)
def test_a_body_that_is_no_message_is_refused(body):
    framer = Framer()
    framer.feed(b"\xf2" + (len(body) + 4).to_bytes(4, "big") + body)
    with pytest.raises(ProtocolViolated):
        decode(framer.take())
