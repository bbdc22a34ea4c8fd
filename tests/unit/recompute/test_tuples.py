"""Parameters in Spark SQL."""

from services.recompute.core.catalog import PgType
from services.recompute.outbound.spark.frames import Condition, fused
from services.recompute.outbound.spark.tuples import (
    as_select,
    as_table,
    at_moment,
    columns_read,
    tables_read,
    with_columns,
    with_literals,
    with_views,
)

INT4, TEXT = PgType(23, "int4"), PgType(25, "text")
SQL = "c0 = ⟦p1⟧ OR c12 = ⟦p2⟧"


def test_each_token_takes_the_literal_of_its_parameter():
    assert with_literals(SQL, (INT4, TEXT), (b"5", None)) == "c0 = CAST('5' AS INT) OR c12 = CAST(NULL AS STRING)"


def test_a_value_that_looks_like_a_token_is_not_replaced_again():
    text = with_literals("⟦p1⟧ ⟦p2⟧", (TEXT, TEXT), ("⟦p2⟧".encode(), b"x"))
    assert text.endswith(" 'x'")
    assert "⟦" not in text


def test_tuples_are_also_a_table():
    assert with_columns(SQL) == "c0 = p1 OR c12 = p2"
    assert as_table((INT4, TEXT), [(b"5", b"a"), (None, b"b")]).to_pylist() == [
        {"q": 0, "p1": 5, "p2": "a"},
        {"q": 1, "p1": None, "p2": "b"},
    ]
    assert as_select((), ()) == "(SELECT 0 AS q)"


def test_tables_and_columns_that_a_plan_reads_are_found():
    assert columns_read(SQL) == {0, 12}
    assert tables_read("FROM ⟦t:16384⟧ JOIN ⟦t:7⟧") == {16384, 7}
    assert with_views("FROM ⟦t:16384⟧", {16384: "v"}) == "FROM v"


def test_the_moment_counts_from_2000():
    assert at_moment("⟦now⟧", 946_684_800_000_001) == "1L"


def test_slots_are_numbered_through_the_tuples_of_a_template():
    condition = Condition("c0 = ⟦p1⟧", (), (INT4,), ((b"5",), (b"6",)), slot=40)
    assert fused([condition], {}, with_outputs=False) == (
        "array_compact(array(CASE WHEN c0 = CAST('5' AS INT) THEN 40 END, "
        "CASE WHEN c0 = CAST('6' AS INT) THEN 41 END)) AS m"
    )


def test_many_tuples_are_gone_through_in_an_array():
    condition = Condition("c0 = ⟦p1⟧", ("⟦p1⟧",), (INT4,), ((b"5",),) * 9, slot=7)
    assert fused([condition], {7: "tuples"}, with_outputs=True) == (
        "transform(filter(tuples, tidewire_tuple -> c0 = tidewire_tuple.p1), "
        "tidewire_tuple -> named_struct('n', 7 + tidewire_tuple.q, 'r', array(tidewire_tuple.p1))) AS m"
    )
