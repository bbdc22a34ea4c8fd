"""The ETag of a result: of its rows, and of their order only where the query gives one (decision 3)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.outbound.prepared_runs import etag_of
from services.sqlguard.parse_tree import Parsed, ParsedColumn

COLUMNS = (ParsedColumn("a", 23, -1), ParsedColumn("b", 25, -1))
rows = st.lists(st.tuples(st.none() | st.binary(max_size=3), st.none() | st.binary(max_size=3)), max_size=6)


@given(rows.flatmap(lambda found: st.tuples(st.just(found), st.permutations(found))))
def test_without_order_by_the_order_of_the_rows_means_nothing(both):
    found, permuted = both
    assert etag_of(COLUMNS, found, is_ordered=False) == etag_of(COLUMNS, permuted, is_ordered=False)


@given(rows, rows)
def test_other_rows_have_another_etag(some, others):
    assert (etag_of(COLUMNS, some, is_ordered=True) == etag_of(COLUMNS, others, is_ordered=True)) == (some == others)
    alike = sorted(some, key=repr) == sorted(others, key=repr)
    assert (etag_of(COLUMNS, some, is_ordered=False) == etag_of(COLUMNS, others, is_ordered=False)) == alike


@pytest.mark.parametrize("is_ordered", [True, False])
def test_other_columns_and_repeated_rows_have_another_etag(is_ordered):
    def etag(columns, found):
        return etag_of(columns, found, is_ordered=is_ordered)

    row = (b"1", None)
    assert etag(COLUMNS, [row]) != etag(COLUMNS[::-1], [row])
    assert len({etag(COLUMNS, [row] * count) for count in range(5)}) == 5


@pytest.mark.parametrize(
    ("tree", "is_ordered"),
    [
        ("{QUERY :targetList ({TARGETENTRY :resname a}) :sortClause ({SORTGROUPCLAUSE :eqop 96}) :limit <>}", True),
        ("{QUERY :targetList <> :sortClause <> :limit <>}", False),
        ("{QUERY :rtable ({RTE :subquery {QUERY :sortClause ({S})}}) :sortClause <> :limit <>}", False),
        ("{QUERY :sortClause ({S}) :limit {SUBLINK :subselect {QUERY :sortClause <>}}}", True),
        (r"{QUERY :targetList ({T :resname \} :x :sortClause ({S}) :z 1}) :sortClause <>}", False),
        ("{QUERY :targetList ({T :resname :sortClause :y 1}) :sortClause <>}", False),
    ],
)
def test_a_query_is_ordered_by_its_own_order_by(tree, is_ordered):
    assert Parsed((), COLUMNS, tree, tree).is_ordered is is_ordered
