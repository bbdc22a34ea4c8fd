"""Who has not the key has said nothing, whatever he writes into a topic (issue 10, A)."""

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from proto.tidewire.v1.commands_pb2 import Command, Owner, Subscribe
from proto.tidewire.v1.queries_pb2 import Query
from proto.topics import COMMANDS, QUERIES
from services.chassis.seal import Seal
from services.recompute.inbound.queries import _Decode

SEAL, OTHER = Seal(key="k" * 32), Seal(key="o" * 32)


def command(role="r"):
    body = Subscribe(sql="SELECT 1", owner=Owner(role=role, login="l"), settings_read={"a": "b", "c": "d"})
    return Command(command_id=b"1", subscribe=body)


def test_what_was_sealed_holds_and_is_the_record():
    value = SEAL.sealed(COMMANDS, command())
    assert SEAL.holds(COMMANDS, value)
    read = COMMANDS.decode(value)
    read.ClearField("seal")
    assert read == command()
    # Maps have no order: the bytes of the same record may be others, and hold as well.
    assert SEAL.holds(COMMANDS, SEAL.sealed(COMMANDS, COMMANDS.decode(value)))


@given(st.data())
def test_a_byte_that_is_another_breaks_it(data):
    value = bytearray(SEAL.sealed(COMMANDS, command()))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] ^= data.draw(st.integers(1, 255))
    assert not SEAL.holds(COMMANDS, bytes(value))


@given(st.binary(max_size=200))
def test_noise_before_or_behind_breaks_it(noise):
    value = SEAL.sealed(COMMANDS, command())
    assert not noise or not SEAL.holds(COMMANDS, value + noise)
    assert not noise or not SEAL.holds(COMMANDS, noise + value)
    assert not SEAL.holds(COMMANDS, noise)


def test_another_key_another_topic_and_none_at_all_do_not_hold():
    assert not SEAL.holds(COMMANDS, OTHER.sealed(COMMANDS, command()))
    assert not SEAL.holds(COMMANDS, command().SerializeToString())
    assert not SEAL.holds(QUERIES, SEAL.sealed(COMMANDS, command()))
    # The seal of a record does not hold for another role in front of it.
    sealed = SEAL.sealed(COMMANDS, command("weak"))
    assert not SEAL.holds(COMMANDS, command("strong").SerializeToString() + sealed[-34:])


def test_a_short_key_is_refused_and_never_shown():
    with pytest.raises(ValueError, match="TIDEWIRE_SEAL_KEY"):
        Seal(key="k" * 31)
    assert "k" * 32 not in repr(SEAL)


def test_recompute_plans_no_query_without_the_seal():
    decode = _Decode(SEAL, structlog.wrap_logger(None, processors=[drop]))
    query = Query(query_id=b"q", role="postgres", login="postgres")
    assert decode(query.SerializeToString()) is None
    assert decode(OTHER.sealed(QUERIES, query)) is None
    assert decode(None) is None
    assert decode(SEAL.sealed(QUERIES, query)).role == "postgres"


def drop(*_):
    raise structlog.DropEvent
