"""Which columns tell the rows of a join apart."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from services.recompute.core.certainty import Facts, certain_key, follows, tells_apart


def facts(**keys: tuple[frozenset[int], ...]) -> Facts:
    return Facts(keys=keys, equal=[], fixed=set(), single=[])


def test_a_table_s_key_tells_its_rows_apart():
    assert tells_apart(facts(a=(frozenset({0}),)), [("a", 0)])


def test_a_table_without_a_key_is_never_certain():
    assert not tells_apart(facts(a=()), [("a", 0), ("a", 1)])


def test_two_tables_need_both_keys():
    both = facts(a=(frozenset({0}),), b=(frozenset({0}),))
    assert not tells_apart(both, [("a", 0)])
    assert tells_apart(both, [("a", 0), ("b", 0)])


def test_a_join_on_the_other_s_whole_key_needs_only_one():
    joined = facts(a=(frozenset({0}),), b=(frozenset({0}),))
    joined.equal.append((("a", 1), ("b", 0)))
    assert tells_apart(joined, [("a", 0)])
    assert not tells_apart(joined, [("b", 0)])


def test_a_left_join_on_the_other_s_whole_key_adds_no_rows():
    joined = facts(a=(frozenset({0}),), b=(frozenset({0}),))
    joined.single.append((frozenset({"a"}), "b"))
    assert tells_apart(joined, [("a", 0)])


def test_a_fixed_column_need_not_be_shown():
    known = facts(a=(frozenset({0, 1}),))
    known.fixed.add(("a", 0))
    assert certain_key(known, {("a", 1): 4}) == (4,)


def test_a_column_that_equals_a_shown_one_is_shown():
    joined = facts(orders=(frozenset({0}),), items=(frozenset({0, 1}),))
    joined.equal.append((("orders", 0), ("items", 0)))
    assert certain_key(joined, {("orders", 0): 0, ("items", 1): 1}) == (0, 1)


def test_what_a_key_decides_follows_from_it():
    assert follows(facts(a=(frozenset({0}),)), [("a", 0)], [("a", 5)])
    assert not follows(facts(a=(frozenset({0}),)), [("a", 5)], [("a", 0)])


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=4, unique_by=lambda row: row[0])


@given(a=ROWS, b=ROWS, shown=st.sets(st.sampled_from([("a", 0), ("a", 1), ("b", 0), ("b", 1)])), on=st.integers(0, 1))
def test_rows_of_real_joins_are_apart_where_it_says_so(a, b, shown, on):
    """Both tables have column 0 as their key; the join is on a's column 1 and one of b's."""
    known = facts(a=(frozenset({0}),), b=(frozenset({0}),))
    known.equal.append((("a", 1), ("b", on)))
    rows = [{"a": left, "b": right} for left, right in product(a, b) if left[1] == right[on]]
    seen = [tuple(row[name][at] for name, at in sorted(shown)) for row in rows]
    if tells_apart(known, shown):
        assert len(set(seen)) == len(seen)
