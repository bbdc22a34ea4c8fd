"""A statement that the gateway carries out is held, with all behind it, until PostgreSQL can be sent its answer."""

import pytest

from proto.pgwire.conversation import Conversation, Traffic
from proto.pgwire.framing import Frame, encode_frame
from proto.pgwire.topic_statements import Held

INSTEAD = "SELECT 1"
CONSUME = b"consume from a.t"


def query(text: bytes) -> bytes:
    return encode_frame(ord("Q"), text + b"\0")


def parse(text: bytes, name: bytes = b"") -> bytes:
    return encode_frame(ord("P"), name + b"\0" + text + b"\0\0\0")


READY = encode_frame(ord("Z"), b"I")
BIND, EXECUTE, SYNC = (encode_frame(ord(kind), body) for kind, body in (("B", b"\0" * 8), ("E", b"\0" * 5), ("S", b"")))


def made(text: bytes, can_be_held: bool) -> str | Held:
    return Held(text) if can_be_held else "REFUSED"


def talk() -> Conversation:
    conversation = Conversation(Traffic(), made)
    conversation.log_in()
    conversation.from_server(READY)
    return conversation


def passed(found: list[bytes | Frame | Held]) -> bytes:
    return b"".join(each for each in found if isinstance(each, bytes))


SIMPLE, EXTENDED = (query, b""), (parse, BIND + EXECUTE + SYNC)


@pytest.mark.parametrize(("form", "behind"), [SIMPLE, EXTENDED], ids=["simple", "extended"])
@pytest.mark.parametrize("times", [1, 2])
def test_whatever_the_pieces_all_passes_in_order_and_nothing_of_it_before_its_release(form, behind, times):
    first, last = query(b"SELECT 7"), query(b"SELECT 8")
    said = first + (form(CONSUME) + behind) * times + last
    expected = first + (form(INSTEAD.encode()) + behind) * times + last
    for cut in range(1, len(said)):
        conversation, released = talk(), 0
        out = passed(conversation.from_client(said[:cut])) + passed(conversation.from_client(said[cut:]))
        while conversation.is_holding:
            assert out == first + (form(INSTEAD.encode()) + behind) * released
            out += passed(conversation.release(INSTEAD))
            released += 1
        assert (out, released) == (expected, times)


def test_while_it_is_held_nothing_of_it_is_under_way():
    """So the gateway can ask PostgreSQL who the client is; and the account is as if it had been sent just then."""
    conversation = talk()
    conversation.from_client(query(b"SELECT 7"))
    (held,) = conversation.from_client(query(CONSUME) + query(b"SELECT 8"))
    assert held == Held(CONSUME) and not conversation.at_rest
    conversation.from_server(READY)
    assert conversation.at_rest and conversation.is_holding
    conversation.release(INSTEAD)
    assert not conversation.at_rest and not conversation.is_holding
    conversation.from_server(READY)
    assert not conversation.at_rest
    conversation.from_server(READY)
    assert conversation.at_rest and not conversation.unsure


@pytest.mark.parametrize("said", [parse(CONSUME, b"name"), parse(b"SELECT 1") + parse(CONSUME), BIND + parse(CONSUME)])
def test_under_a_name_or_inside_of_a_batch_it_cannot_be_held(said):
    conversation = talk()
    assert b"REFUSED" in passed(conversation.from_client(said + SYNC)) and not conversation.is_holding
    conversation.from_server(READY)
    assert conversation.at_rest


def test_each_byte_and_message_is_counted_once():
    traffic = Traffic()
    conversation = Conversation(traffic, made)
    conversation.log_in()
    said = query(CONSUME) + query(b"SELECT 8")
    conversation.from_client(said)
    conversation.release(INSTEAD)
    assert (traffic.bytes_received, traffic.messages_received, traffic.queries) == (len(said), 2, 2)
