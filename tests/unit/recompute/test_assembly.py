"""Result rows from the log's own text and from what Spark computed."""

import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.assembly import assembly
from services.recompute.core.catalog import Column, PgType, Table
from services.recompute.core.plan import OutputColumn
from services.recompute.core.rendering import PINNED, Unrenderable

INT4, BOOL, TIMESTAMPTZ = PgType(23, "int4"), PgType(16, "bool"), PgType(1184, "timestamptz")
MONEY = PgType(790, "money")
TABLE = Table(
    oid=1,
    schema="public",
    name="things",
    columns=(Column("a", INT4), Column("b", BOOL), Column("c", TIMESTAMPTZ), Column("d", MONEY)),
    key=(0,),
)
CHANGE = (b"7", b"f", b"2024-01-01 00:00:00+00", b"$1.00")
PRINTED = {"CAST(c1 AS STRING)": BOOL, "CAST(c2 AS STRING)": TIMESTAMPTZ, "CAST(c0 + 1 AS STRING)": INT4}


def assembled(outputs, settings=PINNED):
    columns = tuple(OutputColumn("", type) for type in outputs.values())
    return assembly(tuple(outputs), columns, TABLE, settings)


def test_columns_that_nothing_computes_keep_the_logs_text():
    made = assembled(PRINTED)
    assert made.computed == ("CAST(c0 + 1 AS STRING)",)
    assert made.row(CHANGE, [b"8"]) == (b"f", b"2024-01-01 00:00:00+00", b"8")


def test_a_moment_is_printed_anew_for_another_time_zone():
    made = assembled(PRINTED, TextSettings(time_zone="Asia/Tokyo", date_style="ISO, MDY", extra_float_digits=1))
    assert made.computed == ("CAST(c2 AS STRING)", "CAST(c0 + 1 AS STRING)")
    assert made.row(CHANGE, [b"757382400000000", b"8"]) == (b"f", b"2024-01-01 09:00:00+09", b"8")


def test_null_stays_null():
    assert assembled(PRINTED).row((None, None, None, None), [None]) == (None, None, None)


def test_a_type_whose_text_is_not_known_is_refused_also_where_nothing_computes_it():
    with pytest.raises(Unrenderable):
        assembled({"c3": MONEY})
