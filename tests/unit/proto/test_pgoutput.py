"""The decoder against bytes that PostgreSQL 15 and 18 have sent, and against bytes that nobody sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from proto.pgoutput.decoder import MalformedMessage, decode, encode_truncate, encode_unwritable
from proto.pgoutput.messages import (
    ABSENT,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Origin,
    Relation,
    Truncate,
    Type,
    Unwritable,
    Update,
)

T = Relation(
    16389,
    "public",
    "t",
    "d",
    (
        Column("id", 23, -1, True),
        Column("m", 16386, -1, False),
        Column("big", 25, -1, False),
        Column("n", 25, -1, False),
    ),
)
F15 = Relation(16396, "public", "f", "f", (Column("a", 23, -1, True), Column("b", 25, -1, True)))

# Captured with psycopg2 from PostgreSQL 15.
FIFTEEN = {
    "42000000000192bcf80003035b571dd8e7000002d7": Begin(26393848, 1794800568613095, 727),
    "4300000000000192bcf8000000000192bd280003035b571dd8e7": Commit(26393848, 26393896, 1794800568613095),
    "4f00000000000000006f00": Origin(0, "o"),
    "59000040027075626c6963006d6f6f6400": Type(16386, "public", "mood"),
    "52000040057075626c69630074006400040169640000000017ffffffff006d0000004002ffffffff006269670000000019ffffffff"
    "006e0000000019ffffffff": T,
    "520000400c7075626c696300660066000201610000000017ffffffff01620000000019ffffffff": F15,
    "49000040054e000474000000013174000000026f6b740000000578787878786e": Insert(16389, (b"1", b"ok", b"xxxxx", None)),
    # An UPDATE that leaves a TOAST value alone, and one that changes the key.
    "55000040054e000474000000013174000000026f6b7574000000016e": Update(16389, None, False, (b"1", b"ok", ABSENT, b"n")),
    "55000040054b00047400000001316e6e6e4e000474000000013274000000026f6b7574000000016e": Update(
        16389, (b"1", None, None, None), True, (b"2", b"ok", ABSENT, b"n")
    ),
    "550000400c4f00027400000001317400000001624e0002740000000131740000000163": Update(
        16396, (b"1", b"b"), False, (b"1", b"c")
    ),
    "44000040054b00047400000001326e6e6e": Delete(16389, (b"2", None, None, None), True),
    "440000400c4f0002740000000131740000000163": Delete(16396, (b"1", b"c"), False),
    "5400000002020000400500004011": Truncate((16389, 16401), False, True),
    "4d01000000000192dfc074696465776972652e626172726965720000000003616263": LogicalMessage(
        True, 26402752, "tidewire.barrier", b"abc"
    ),
}
# And from PostgreSQL 18.
EIGHTEEN = {
    "420000000001afbfa80003035b576da1d1000002f3": Begin(28295080, 1794800573841873, 755),
    "43000000000001afbfa80000000001afbfd80003035b576da1d1": Commit(28295080, 28295128, 1794800573841873),
    "59000040027075626c6963006d6f6f6400": Type(16386, "public", "mood"),
    "52000040127075626c6963007a006400010169640000000017ffffffff": Relation(
        16402, "public", "z", "d", (Column("id", 23, -1, True),)
    ),
    "49000040124e0001740000000139": Insert(16402, (b"9",)),
    "550000400d4f00027400000001317400000001624e0002740000000131740000000163": Update(
        16397, (b"1", b"b"), False, (b"1", b"c")
    ),
    "440000400d4f0002740000000131740000000163": Delete(16397, (b"1", b"c"), False),
    "5400000002020000400500004012": Truncate((16389, 16402), False, True),
    "4d010000000001afe28874696465776972652e626172726965720000000003616263": LogicalMessage(
        True, 28304008, "tidewire.barrier", b"abc"
    ),
}
CAPTURED = [*FIFTEEN.items(), *EIGHTEEN.items()]


@pytest.mark.parametrize(("sent", "message"), CAPTURED, ids=lambda value: type(value).__name__)
def test_what_postgres_sends_is_understood(sent, message):
    assert decode(bytes.fromhex(sent)) == message


@pytest.mark.parametrize(("sent", "message"), CAPTURED, ids=lambda value: type(value).__name__)
def test_a_cut_message_is_malformed_wherever_it_is_cut(sent, message):
    whole = bytes.fromhex(sent)
    for length in range(len(whole)):
        with pytest.raises(MalformedMessage):
            decode(whole[:length])


@given(
    st.binary(max_size=80)
    | st.builds(lambda kind, rest: kind + rest, st.sampled_from("BCORYIUDTM!").map(str.encode), st.binary(max_size=60))
)
def test_any_bytes_are_a_message_or_malformed(sent):
    assert is_message_or_malformed(sent)


def is_message_or_malformed(sent: bytes) -> bool:
    """Whatever else than MalformedMessage is raised passes through and fails the test."""
    try:
        return isinstance(decode(sent), Struct)
    except MalformedMessage:
        return True


@given(st.sampled_from([bytes.fromhex(sent) for sent, _ in CAPTURED]), st.data())
def test_a_damaged_message_is_a_message_or_malformed(sent, data):
    at = data.draw(st.integers(0, len(sent) - 1))
    damaged = sent[:at] + bytes([data.draw(st.integers(0, 255))]) + sent[at + 1 :]
    assert is_message_or_malformed(damaged)


OIDS = st.integers(0, 2**32 - 1)


@given(st.lists(OIDS, max_size=5).map(tuple), st.booleans(), st.booleans())
def test_a_truncate_survives_its_own_encoding(relations, cascade, restart):
    truncate = Truncate(relations, cascade, restart)
    assert decode(encode_truncate(truncate)) == truncate


@given(OIDS, st.sampled_from("IUD"), st.text())
def test_an_unwritable_change_survives_its_own_encoding(relation, operation, reason):
    unwritable = Unwritable(relation, operation, reason)
    assert decode(encode_unwritable(unwritable)) == unwritable


def test_a_name_that_is_not_utf_8_survives():
    relation = decode(b"R\0\0\0\1\0caf\xe9\0d\0\0")
    assert (relation.schema, relation.name.encode("utf-8", "surrogateescape")) == ("pg_catalog", b"caf\xe9")
