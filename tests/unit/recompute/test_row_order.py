"""Rows of an ordered result stay in order as they come and go."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.recompute.core.row_order import RowOrder

ROWS = st.tuples(st.binary(max_size=2), st.sampled_from([(b"x",), (None,), (b"y",)]))


@given(st.lists(ROWS, max_size=30), st.randoms())
def test_rows_are_in_the_order_of_their_keys(came, dice):
    order, left = RowOrder(), list(came)
    for key, row in came:
        order.change(key, row, 1)
    for key, row in dice.sample(came, len(came) // 2):
        order.change(key, row, -1)
        left.remove((key, row))
    keys = sorted(key for key, _ in left)
    by_key = {key: sorted(map(repr, (row for one, row in left if one == key))) for key in keys}
    at = 0
    for key in dict.fromkeys(keys):
        until = at + len(by_key[key])
        assert sorted(map(repr, order.rows[at:until])) == by_key[key]
        at = until
    assert at == len(order.rows)


def test_a_row_that_is_not_there_cannot_go():
    order = RowOrder()
    order.change(b"a", (b"1",), 2)
    with pytest.raises(KeyError):
        order.change(b"a", (b"2",), -1)
    with pytest.raises(KeyError):
        order.change(b"b", (b"1",), -1)
