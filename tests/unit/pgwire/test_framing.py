"""Frames do not depend on how the network cuts the stream."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.pgwire.errors import MalformedMessage
from proto.pgwire.framing import Frame, Framer, encode_frame
from proto.pgwire.split import Passed, Splitter

TAKEN, SEEN, OTHER = 0xF0, 0x53, 0x51
FRAMES = st.lists(st.tuples(st.sampled_from([TAKEN, SEEN, OTHER]), st.binary(max_size=40)), max_size=12)
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


@given(frames=FRAMES, cuts=CUTS)
def test_a_splitter_passes_everything_on_but_what_it_takes(frames, cuts):
    splitter, passed, taken = Splitter(taken=frozenset({TAKEN}), seen=frozenset({SEEN})), b"", []
    for piece in cut(b"".join(encode_frame(*frame) for frame in frames), cuts):
        for part in splitter.feed(piece):
            if isinstance(part, Passed):
                passed += part.data
            else:
                taken.append(part)
    assert passed == b"".join(encode_frame(*frame) for frame in frames if frame[0] != TAKEN)
    assert taken == [Frame(*frame) for frame in frames if frame[0] != OTHER]
    assert splitter.at_boundary


@given(frames=FRAMES, cuts=CUTS)
def test_a_splitter_says_when_it_stands_between_two_messages(frames, cuts):
    splitter, passed = Splitter(taken=frozenset({TAKEN})), b""
    for piece in cut(b"".join(encode_frame(*frame) for frame in frames), cuts):
        for part in splitter.feed(piece):
            passed += part.data if isinstance(part, Passed) else b""
        framer = Framer()
        framer.feed(passed)
        list(framer.frames())
        assert splitter.at_boundary == (framer.pending_bytes == 0)


@pytest.mark.parametrize("length", ["00000003", "ffffffff", "80000000"])
def test_an_impossible_length_is_refused(length):
    framer = Framer()
    framer.feed(bytes.fromhex("51" + length))
    with pytest.raises(MalformedMessage, match="impossible length"):
        framer.take()


def test_a_frame_over_the_limit_is_refused_before_it_is_buffered():
    splitter = Splitter(taken=frozenset({TAKEN}))
    with pytest.raises(MalformedMessage, match="over the limit"):
        list(splitter.feed(bytes.fromhex("f07fffffff")))
