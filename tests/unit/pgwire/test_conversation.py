"""What passes between client and PostgreSQL, and when nothing is under way: V4, V11, V22, V23, V61, V62."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.pgwire.conversation import Answer, Conversation, Traffic
from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Frame, encode_frame
from proto.pgwire.live import FRONTEND_TYPES

CLIENT = st.lists(
    st.tuples(st.sampled_from(list(b"QPBDESHCdcf") + sorted(FRONTEND_TYPES)), st.binary(max_size=40)), max_size=12
)
SERVER = st.lists(st.tuples(st.sampled_from(b"TDCZSAN12nE"), st.binary(min_size=1, max_size=40)), max_size=12)
CUTS = st.lists(st.integers(1, 30), min_size=1)
READY, SYNC, BATCH = encode_frame(ord("Z"), b"I"), encode_frame(ord("S"), b""), encode_frame(ord("P"), b"x")


def cut(data, sizes):
    at = 0
    while at < len(data):
        for size in sizes:
            yield data[at : at + size]
            at += size


def encoded(frames):
    return b"".join(encode_frame(*frame) for frame in frames)


def logged_in():
    conversation = Conversation(Traffic())
    conversation.from_server(encode_frame(ord("R"), bytes(4)))
    conversation.log_in()
    conversation.from_server(READY)
    return conversation


def passed(pieces):
    """What goes on to the client, if no notification is on our own channel."""
    told = (encode_frame(piece.type, piece.body) if is_notification(piece) else piece for piece in pieces)
    return b"".join(piece for piece in told if isinstance(piece, bytes))


def is_notification(piece):
    return isinstance(piece, Frame) and piece.type == ord("A")


def found(pieces):
    return [piece for piece in pieces if not isinstance(piece, bytes) and not is_notification(piece)]


@given(frames=CLIENT, cuts=CUTS)
def test_a_clients_messages_pass_but_the_live_ones_however_they_are_cut(frames, cuts):
    conversation, pieces = logged_in(), []
    for data in cut(encoded(frames), cuts):
        pieces += conversation.from_client(data)
    assert passed(pieces) == encoded(frame for frame in frames if frame[0] not in FRONTEND_TYPES)
    assert found(pieces) == [Frame(*frame) for frame in frames if frame[0] in FRONTEND_TYPES]


@given(frames=SERVER, cuts=CUTS)
def test_all_that_postgres_says_passes_and_its_parameters_are_noted(frames, cuts):
    conversation, pieces = logged_in(), []
    for data in cut(encoded(frames), cuts):
        pieces += conversation.from_server(data)
    assert passed(pieces) == encoded(frames)
    assert found(pieces) == [Frame(*frame) for frame in frames if frame[0] == ord("S")]


@given(frames=SERVER, cuts=CUTS)
def test_a_boundary_is_where_what_was_passed_ends_with_a_whole_message(frames, cuts):
    conversation, sent = logged_in(), b""
    ends, at = {0}, 0
    for frame in frames:
        at += len(encode_frame(*frame))
        ends.add(at)
    for data in cut(encoded(frames), cuts):
        sent += passed(conversation.from_server(data))
        assert conversation.at_boundary == (len(sent) in ends)


def test_it_is_at_rest_only_when_postgres_owes_nothing():
    conversation = logged_in()
    assert conversation.at_rest
    conversation.from_client(encode_frame(ord("Q"), b"SELECT 1\0") * 2)
    conversation.from_server(READY)
    assert not conversation.at_rest
    conversation.from_server(READY)
    assert conversation.at_rest
    conversation.from_client(BATCH)
    assert not conversation.at_rest
    conversation.from_client(SYNC)
    assert not conversation.at_rest
    conversation.from_server(encode_frame(ord("Z"), b"T"))
    assert (conversation.at_rest, conversation.status) == (True, b"T")


def test_half_a_message_of_the_client_is_no_rest():
    conversation = logged_in()
    conversation.from_client(b"Q\0")
    assert not conversation.at_rest
    conversation.from_client(b"\0\0\x0aSEL")
    assert not conversation.at_rest


@pytest.mark.parametrize("at_once", [False, True])
def test_a_sync_that_postgres_ignores_while_it_copies_is_not_owed(at_once):
    """libpq sends a Sync right behind the Execute of a COPY, and another one behind CopyDone."""
    conversation = logged_in()
    begins = encode_frame(ord("G"), b"\0\0\0")
    conversation.from_client(BATCH + encode_frame(ord("E"), b"\0\0\0\0\0") + SYNC)
    if not at_once:
        conversation.from_server(begins)
    conversation.from_client(encode_frame(ord("d"), b"1\n") + encode_frame(ord("c"), b"") + SYNC)
    if at_once:
        conversation.from_server(begins)
    assert not conversation.at_rest
    conversation.from_server(encode_frame(ord("C"), b"COPY 1\0") + READY)
    assert conversation.at_rest


def test_a_copy_that_never_begins_leaves_its_syncs_owed():
    conversation = logged_in()
    conversation.from_client(BATCH + SYNC + encode_frame(ord("c"), b"") + SYNC)
    conversation.from_server(encode_frame(ord("E"), b"VERROR\0\0") + READY)
    assert not conversation.at_rest
    conversation.from_server(READY)
    assert (conversation.at_rest, conversation.unsure) == (True, False)


def test_after_what_cannot_be_counted_nothing_is_asked_any_more():
    copying = logged_in()
    copying.from_client(BATCH + SYNC)
    copying.from_server(encode_frame(ord("G"), b"\0\0\0") + encode_frame(ord("E"), b"VERROR\0\0") + READY)
    mixed = logged_in()
    mixed.from_client(BATCH + encode_frame(ord("Q"), b"\0"))
    mixed.from_server(READY)
    mixed.from_client(SYNC)
    mixed.from_server(READY)
    assert (copying.unsure, copying.at_rest, mixed.unsure, mixed.at_rest) == (True, False, True, False)


@given(cuts=CUTS, noise=st.lists(st.sampled_from([(ord("N"), b"n"), (ord("A"), b"a")]), max_size=3))
def test_the_answer_to_our_own_question_reaches_nobody_else(cuts, noise):
    conversation = logged_in()
    conversation.ask(("SHOW a", "SHOW b"), "ours")
    assert not conversation.at_rest
    row = encode_frame(ord("D"), b"\0\1\0\0\0\1x")
    null = encode_frame(ord("D"), b"\0\1\xff\xff\xff\xff")
    said = encoded(noise) + b"".join((encode_frame(ord("3"), b""), encode_frame(ord("1"), b""), row, null, READY))
    after = encode_frame(ord("T"), b"their own")
    pieces = [piece for data in cut(said + after, cuts) for piece in conversation.from_server(data)]
    assert passed(pieces) == encoded(noise) + after
    assert found(pieces) == [Answer(((b"x",), (None,)))]


def test_a_question_that_is_refused_has_no_values_and_a_fatal_error_passes():
    conversation = logged_in()
    conversation.ask(("SHOW a",), "ours")
    error = encode_frame(ord("E"), b"SERROR\0VERROR\0C57014\0Mcancelled\0\0")
    assert conversation.from_server(error + READY) == [Answer(None)]
    conversation.ask(("SHOW a",), "ours")
    fatal = Frame(ord("E"), b"SFATAL\0VFATAL\0C57P01\0Mgo\0\0")
    assert conversation.from_server(encode_frame(fatal.type, fatal.body)) == [fatal]


def test_impossible_and_huge_lengths_are_refused_before_they_are_buffered():
    with pytest.raises(MalformedMessage, match="impossible length"):
        logged_in().from_client(bytes.fromhex("5100000003"))
    with pytest.raises(MalformedMessage, match="impossible length"):
        logged_in().from_client(bytes.fromhex("f0ffffffff"))
    with pytest.raises(MalformedMessage, match="over the limit"):
        logged_in().from_client(bytes.fromhex("f07fffffff"))
    with pytest.raises(MalformedMessage, match="over the limit"):
        Conversation(Traffic()).from_client(bytes.fromhex("7000100000"))


def test_v60_what_passes_is_counted():
    traffic = Traffic()
    conversation = Conversation(traffic)
    conversation.log_in()
    conversation.from_server(READY)
    sent = encode_frame(ord("Q"), b"SELECT 1\0") + BATCH + encode_frame(ord("E"), b"\0\0\0\0\0") + SYNC
    conversation.from_client(sent[:7])
    conversation.from_client(sent[7:])
    conversation.from_server(READY + READY)
    assert (traffic.queries, traffic.messages_received, traffic.messages_sent) == (2, 4, 3)
    assert (traffic.bytes_received, traffic.bytes_sent) == (len(sent), 3 * len(READY))


@given(cuts=CUTS)
def test_a_notification_is_taken_out_whole_and_a_listen_is_noted(cuts):
    """LISTEN, UNLISTEN and DISCARD ALL are noted from the log-in on; other completions pass unseen."""
    conversation = logged_in()
    notification = encode_frame(ord("A"), b"\0\0\0\1pgr\0forged\0")
    completions = [encode_frame(ord("C"), tag) for tag in (b"SELECT 1\0", b"LISTEN\0", b"SET\0")]
    pieces = [
        piece for data in cut(notification + b"".join(completions), cuts) for piece in conversation.from_server(data)
    ]
    frames = [piece for piece in pieces if isinstance(piece, Frame)]
    assert frames == [Frame(ord("A"), b"\0\0\0\1pgr\0forged\0"), Frame(ord("C"), b"LISTEN\0")]
    assert b"".join(piece for piece in pieces if isinstance(piece, bytes)) == b"".join(completions)
