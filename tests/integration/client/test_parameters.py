"""Python values as parameters: PostgreSQL reads back what was meant (V9, V12, V35)."""

import datetime as dt
import math
from decimal import Decimal
from uuid import UUID

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidewire.parameters import to_text

NO_NUL = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
ZONES = st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=45)), dt.timezone(dt.timedelta(hours=-12))])
KINDS = {
    "boolean": st.booleans(),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float8": st.floats(allow_nan=False),
    "numeric": st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**12), max_value=10**12),
    "text": NO_NUL,
    "bytea": st.binary(max_size=12),
    "date": st.dates(),
    "time": st.times(),
    "timestamp": st.datetimes(),
    # Python itself has no moment beyond year 1 or 9999 in other zones.
    "timestamptz": st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 12, 31), timezones=ZONES),
    "interval": st.timedeltas(dt.timedelta(days=-(10**6)), dt.timedelta(days=10**6)),
    "uuid": st.uuids(),
}


@pytest.fixture(scope="module")
def connection(postgres_server):
    with psycopg.connect(postgres_server.dsn, autocommit=True) as made:
        # psycopg reads answers in a zone that has every year.
        made.execute("SET TimeZone = 'UTC'")
        yield made


def read_back(connection, text, kind):
    """What PostgreSQL makes of a parameter of the text format."""
    prepared = connection.pgconn.exec_params(f"SELECT $1::{kind}".encode(), [text])
    assert prepared.status == psycopg.pq.ExecStatus.TUPLES_OK, prepared.error_message
    loaded = psycopg.adapt.Transformer(connection)
    loaded.set_pgresult(prepared)
    return loaded.load_row(0, tuple)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_read_back_as_it_was(connection, kind):
    @given(KINDS[kind])
    def law(value):
        assert read_back(connection, to_text(value), kind) == value

    law()


@pytest.mark.parametrize("kind", KINDS)
def test_so_is_a_list_of_them(connection, kind):
    @given(st.lists(st.one_of(st.none(), KINDS[kind]), max_size=4))
    def law(values):
        assert read_back(connection, to_text(values), f"{kind}[]") == values

    law()


@pytest.mark.parametrize("style", ["SQL, DMY", "German, MDY", "Postgres, YMD", "ISO, DMY"])
def test_dates_mean_the_same_in_every_datestyle(connection, style):
    connection.execute("SELECT set_config('DateStyle', %s, false)", [style])
    try:
        for value, kind in ((dt.date(2026, 3, 4), "date"), (dt.datetime(2026, 3, 4, 5, 6, 7, 89), "timestamp")):
            text = to_text(value)
            same = connection.pgconn.exec_params(
                f"SELECT $1::{kind} = make_date(2026, 3, 4) + $2::time".encode(),
                [text, text if kind == "timestamp" else b"0:0"],
            )
            assert same.get_value(0, 0) == b"t", same.error_message
    finally:
        connection.execute("SET DateStyle = 'ISO, MDY'")


def test_what_is_not_a_number_is(connection):
    assert to_text(None) is None
    assert math.isnan(read_back(connection, to_text(math.nan), "float8"))
    assert read_back(connection, to_text(Decimal("NaN")), "numeric").is_nan()
    assert read_back(connection, to_text(Decimal("-Infinity")), "numeric") == Decimal("-Infinity")
    assert read_back(connection, to_text([[1, 2], [3, None]]), "int[]") == [[1, 2], [3, None]]
    assert read_back(connection, to_text([]), "int[]") == []
    assert read_back(connection, to_text([UUID(int=5)]), "uuid[]") == [UUID(int=5)]


@pytest.mark.parametrize("value", [object(), {"a": 1}, 1j, {1}])
def test_what_has_no_text_is_refused_with_what_does(value):
    with pytest.raises(TypeError, match=r"cannot be a parameter: pass None, bool"):
        to_text(value)


def test_a_text_with_nul_is_refused():
    with pytest.raises(ValueError, match="NUL"):
        to_text(["a\0b"])
