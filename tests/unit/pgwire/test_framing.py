"""Frames do not depend on how the network cuts the stream (V1, V11, V61, V62)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Frame, Framer, encode_frame

FRAMES = st.lists(st.tuples(st.sampled_from(b"QS\xf0"), st.binary(max_size=40)), max_size=12)
CUTS = st.lists(st.integers(1, 30), min_size=1)


def cut(data, sizes):
    """The data in pieces of these sizes, over and over."""
    at = 0
    while at < len(data):
        for size in sizes:
            yield data[at : at + size]
            at += size


@given(frames=FRAMES, cuts=CUTS)
def test_frames_do_not_depend_on_how_the_network_cuts_the_stream(frames, cuts):
    framer, found = Framer(), []
    for piece in cut(b"".join(encode_frame(*frame) for frame in frames), cuts):
        framer.feed(piece)
        found += framer.frames()
    assert found == [Frame(*frame) for frame in frames]


@pytest.mark.parametrize("length", ["00000003", "ffffffff", "80000000"])
def test_an_impossible_length_is_refused(length):
    framer = Framer()
    framer.feed(bytes.fromhex("51" + length))
    with pytest.raises(MalformedMessage, match="impossible length"):
        framer.take()


def test_a_frame_over_the_limit_is_refused_before_it_is_buffered():
    framer = Framer(limit_bytes=1000)
    framer.feed(bytes.fromhex("f07fffffff"))
    with pytest.raises(MalformedMessage, match="over the limit"):
        framer.take()
