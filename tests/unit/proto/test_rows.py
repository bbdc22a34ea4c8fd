"""Row blocks and the hash of a multiset of rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.multiset import EMPTY, shifted
from proto.rows import DamagedBlock, decode_block, decode_row, encode_block, encode_row, encoded_rows

ROWS = st.lists(st.none() | st.binary(max_size=12), max_size=4).map(tuple)
WEIGHTS = st.integers(-(2**31), 2**31 - 1)
BLOCKS = st.lists(st.tuples(ROWS, WEIGHTS), max_size=6)


@given(BLOCKS)
def test_a_block_gives_back_its_rows_and_weights_in_order(rows):
    assert list(decode_block(encode_block(rows))) == rows


@given(BLOCKS)
def test_rows_that_nobody_looks_into_stay_as_they_are_encoded(rows):
    kept = list(encoded_rows(encode_block(rows)))
    assert kept == [(encode_row(row), weight) for row, weight in rows]
    assert [(decode_row(encoded), weight) for encoded, weight in kept] == rows


@given(BLOCKS.filter(bool), st.data())
def test_a_block_that_was_cut_is_noticed_without_looking_into_its_rows(rows, data):
    block = encode_block(rows)
    cut = block[: data.draw(st.integers(1, len(block) - 1))]
    try:
        found = list(encoded_rows(cut))
    except DamagedBlock:
        return
    assert encode_block([(decode_row(encoded), weight) for encoded, weight in found]) == cut


@given(BLOCKS, BLOCKS)
def test_blocks_may_be_joined_as_bytes(some, more):
    assert list(decode_block(encode_block(some) + encode_block(more))) == some + more


@given(BLOCKS.filter(bool), st.data())
def test_a_cut_block_never_passes_for_a_shorter_row(rows, data):
    whole = encode_block(rows)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    ends = {len(encode_block(rows[:count])) for count in range(len(rows))}
    if len(cut) in ends:
        assert list(decode_block(cut)) == rows[: sorted(ends).index(len(cut))]
    else:
        with pytest.raises(DamagedBlock):
            list(decode_block(cut))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_block_or_damaged(block):
    try:
        rows = list(decode_block(block))
    except DamagedBlock:
        return
    assert encode_block(rows) == block


@given(ROWS, ROWS)
def test_rows_are_equal_only_if_their_bytes_are(one, other):
    assert (encode_row(one) == encode_row(other)) == (one == other)


@given(BLOCKS, st.randoms())
def test_the_hash_does_not_depend_on_the_order(rows, random):
    mixed = random.sample(rows, len(rows))
    assert shifted(EMPTY, mixed) == shifted(EMPTY, rows)


@given(BLOCKS, BLOCKS)
def test_the_hash_is_additive(some, more):
    assert shifted(shifted(EMPTY, some), more) == shifted(EMPTY, some + more)


@given(BLOCKS)
def test_taking_away_what_was_added_leaves_the_empty_hash(rows):
    assert shifted(shifted(EMPTY, rows), [(row, -weight) for row, weight in rows]) == EMPTY


@given(ROWS, st.integers(0, 20))
def test_a_weight_counts_as_that_many_rows(row, weight):
    assert shifted(EMPTY, [(row, weight)]) == shifted(EMPTY, [(row, 1)] * weight)


@given(ROWS, ROWS)
def test_different_rows_have_different_hashes(one, other):
    assert (shifted(EMPTY, [(one, 1)]) == shifted(EMPTY, [(other, 1)])) == (one == other)
