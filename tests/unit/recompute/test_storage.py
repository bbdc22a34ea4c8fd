"""What PostgreSQL's text is held as."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.recompute.core.catalog import Collation, PgType
from services.recompute.core.rendering import renderer
from services.recompute.core.storage import (
    Unstorable,
    arrow_column,
    arrow_type,
    is_key_fit,
    is_typed,
    literal,
    parsed_date,
    parsed_moment,
    quoted,
    spark_type,
)
from tests.unit.recompute.test_rendering import PINNED


def numeric(precision: int, scale: int) -> PgType:
    return PgType(1700, "numeric", ((precision << 16) | (scale & 0x7FF)) + 4)


@pytest.mark.parametrize(
    ("type_", "held"),
    [
        (PgType(23, "int4"), "INT"),
        (numeric(10, 2), "DECIMAL(10,2)"),
        (numeric(38, 38), "DECIMAL(38,38)"),
        (numeric(39, 0), "STRING"),
        (numeric(5, -2), "STRING"),
        (numeric(2, 4), "STRING"),
        (PgType(1700, "numeric"), "STRING"),
        (PgType(1082, "date"), "INT"),
        (PgType(1184, "timestamptz"), "BIGINT"),
        (PgType(3802, "jsonb"), "STRING"),
        (PgType(99999, "public.int4", kind="d"), "STRING"),
        (PgType(99999, "int4", kind="d"), "STRING"),
    ],
)
def test_a_type_is_held_as(type_: PgType, held: str):
    assert spark_type(type_) == held


def test_only_enums_and_known_base_types_have_values_in_spark():
    types = [PgType(1, "public.mood", kind="e"), PgType(1700, "numeric"), PgType(114, "json"), PgType(25, "text")]
    assert [is_typed(one) for one in types] == [True, False, False, True]


@pytest.mark.parametrize(
    ("type_", "texts", "values"),
    [
        (PgType(21, "int2"), [b"-32768", None], [-32768, None]),
        (PgType(16, "bool"), [b"t", b"f", None], [True, False, None]),
        (numeric(10, 2), [b"-0.50", None], [Decimal("-0.50"), None]),
        (PgType(1082, "date"), [b"2000-01-01", b"1999-12-31", None], [0, -1, None]),
        (PgType(1082, "date"), [b"infinity", b"-infinity", b"2000-01-02"], [2**31 - 1, -(2**31), 1]),
        (PgType(1082, "date"), [b"4714-11-24 BC", b"5874897-12-31"], [-2451545, 2145031948]),
        (PgType(1114, "timestamp"), [b"2000-01-01 00:00:00.5", None], [500000, None]),
        (PgType(1114, "timestamp"), [b"0001-12-31 23:59:59.999999 BC", b"-infinity"], [-63082281600000001, -(2**63)]),
        (PgType(1184, "timestamptz"), [b"1999-12-31 23:59:59.999999+00", None], [-1, None]),
        (PgType(1184, "timestamptz"), [b"2000-01-01 02:30:00+02:30", b"infinity"], [0, 2**63 - 1]),
        (PgType(25, "text"), [b"", "é".encode(), None], ["", "é", None]),
    ],
)
def test_the_logs_text_becomes_a_column(type_: PgType, texts: list[bytes | None], values: list[object]):
    column = arrow_column(type_, texts)
    assert (column.type, column.to_pylist()) == (arrow_type(type_), values)


@pytest.mark.parametrize(
    ("type_", "text"), [(numeric(10, 2), b"NaN"), (PgType(23, "int4"), b"x"), (PgType(1082, "date"), b"x")]
)
def test_a_value_that_cannot_be_held_is_said(type_: PgType, text: bytes):
    with pytest.raises(Unstorable):
        arrow_column(type_, [text])


@given(st.integers(-2451545, 2145031948))
def test_a_date_is_read_as_it_was_printed(days: int):
    assert parsed_date(renderer(PgType(1082, "date"), PINNED)(str(days)).decode()) == days


@given(st.integers(-211813488000000000, 9223371331199999999))
def test_a_moment_is_read_as_it_was_printed(moment: int):
    texts = [
        renderer(PgType(oid, name), PINNED)(str(moment)) for oid, name in ((1114, "timestamp"), (1184, "timestamptz"))
    ]
    assert [parsed_moment(text.decode()) for text in texts] == [moment, moment]


def test_no_text_in_a_literal_looks_like_a_token_of_a_plan_or_a_variable():
    assert quoted("⟦p1⟧ ${x} it's \\ \n") == r"'\u27E6p1\u27E7 \u0024{x} it\'s \\ \n'"


def test_a_null_literal_keeps_its_type():
    assert literal(numeric(10, 2), None) == "CAST(NULL AS DECIMAL(10,2))"


@pytest.mark.parametrize(
    ("type_", "fit"),
    [
        (PgType(25, "text", collation=Collation.LANGUAGE), True),
        (PgType(25, "text", collation=Collation.LOOSE), False),
        (PgType(1042, "bpchar", 8, collation=Collation.BYTES), True),
        (PgType(1042, "bpchar", collation=Collation.BYTES), False),
        (PgType(701, "float8"), False),
        (PgType(1700, "numeric"), False),
        (numeric(50, 2), True),
        (PgType(1186, "interval"), False),
        (PgType(3802, "jsonb"), False),
        (PgType(17, "bytea"), True),
        (PgType(9, "public.mood", kind="e"), True),
        (PgType(9, "public.pair", kind="c"), False),
    ],
)
def test_equal_text_is_equal_value_for(type_: PgType, fit: bool):
    assert is_key_fit(type_) == fit
