"""Canonical text as PostgreSQL's."""

import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import PgType
from services.recompute.core.rendering import Unrenderable, as_is, renderer, zone_agrees

PINNED = TextSettings(
    time_zone="UTC", date_style="ISO, MDY", interval_style="postgres", bytea_output="hex", extra_float_digits=1
)
BERLIN = TextSettings(
    time_zone="Europe/Berlin",
    date_style="ISO, DMY",
    interval_style="postgres",
    bytea_output="hex",
    extra_float_digits=3,
)


# Each answer was asked of PostgreSQL 18.
@pytest.mark.parametrize(
    ("type_", "canonical", "text"),
    [
        ("bool", "true", b"t"),
        ("bool", "false", b"f"),
        ("numeric", "12.50", b"12.50"),
        ("numeric", "7 3 /", b"2.3333333333333333"),
        ("numeric", "10.00 4 /", b"2.5000000000000000"),
        ("numeric", "-7 3 / 2 round", b"-2.33"),
        ("numeric", "0 7 /", b"0.00000000000000000000"),
        ("numeric", "100000 3 /", b"33333.333333333333"),
        ("numeric", "1250 100 / -1 round", b"10"),
        ("float8", "1.0E15", b"1e+15"),
        ("float8", "1.0E14", b"100000000000000"),
        ("float8", "1.0E-4", b"0.0001"),
        ("float8", "1.0E-5", b"1e-05"),
        ("float8", "-0.0", b"-0"),
        ("float8", "NaN", b"NaN"),
        ("float8", "-Infinity", b"-Infinity"),
        ("float8", "5.0E22", b"4.9999999999999996e+22"),
        ("float4", "1000000.0", b"1e+06"),
        ("float4", "999999.0", b"999999"),
        ("float4", "404666816", b"4.0466682e+08"),
        ("float4", "0.1", b"0.1"),
        ("date", "0", b"2000-01-01"),
        ("date", "-730120", b"0001-12-31 BC"),
        ("date", "2921940", b"10000-01-01"),
        ("date", "2147483647", b"infinity"),
        ("timestamp", "-1", b"1999-12-31 23:59:59.999999"),
        ("timestamp", "500000", b"2000-01-01 00:00:00.5"),
        ("timestamptz", "0", b"2000-01-01 00:00:00+00"),
        ("timestamptz", "-9223372036854775808", b"-infinity"),
        ("text", "é", "é".encode()),
    ],
)
def test_a_value_is_printed_as(type_: str, canonical: str, text: bytes):
    assert renderer(PgType(0, type_), PINNED)(canonical) == text


def test_a_moment_is_printed_in_the_subscribers_zone():
    prints = renderer(PgType(1184, "timestamptz"), BERLIN)
    assert [prints("0"), prints("15638400000000")] == [b"2000-01-01 01:00:00+01", b"2000-06-30 02:00:00+02"]


def test_a_moment_on_which_zone_tables_differ_is_left_to_postgres():
    with pytest.raises(Unrenderable):
        renderer(PgType(1184, "timestamptz"), BERLIN)("-946684800000001")


def test_a_division_by_zero_is_left_to_postgres():
    with pytest.raises(Unrenderable):
        renderer(PgType(1700, "numeric"), PINNED)("1 0 /")


@pytest.mark.parametrize("name", ["int4", "text", "uuid", "jsonb", "_text", "int4range"])
def test_text_that_is_postgres_own_is_not_touched(name: str):
    assert renderer(PgType(0, name), BERLIN) is as_is


@pytest.mark.parametrize("name", ["money", "regclass", "_regtype"])
def test_what_depends_on_more_than_text_settings_is_left_to_postgres(name: str):
    with pytest.raises(Unrenderable):
        renderer(PgType(0, name), PINNED)


def test_a_type_of_which_nothing_is_known_passes_only_under_the_logs_own_settings():
    pair = PgType(99999, "public.pair", kind="c")
    assert renderer(pair, PINNED) is as_is
    with pytest.raises(Unrenderable):
        renderer(pair, BERLIN)


def test_a_zone_is_trusted_only_if_postgres_has_the_same_table():
    # Asia/Kolkata has stood at +05:30 since 1945.
    assert zone_agrees("Asia/Kolkata", [19800] * 1000)
    assert not zone_agrees("Asia/Kolkata", [19800] * 999 + [18000])
    assert not zone_agrees("Asia/Kolkata", [])
    assert not zone_agrees("<+02>-02", [7200])
