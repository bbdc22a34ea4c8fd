"""Typed literals and plain JSON, both ways."""

import orjson
import pytest

from services.gateway.core.cdc.literals import PLAIN, PLAIN_NULL, TYPED, TYPED_NULL, text_of
from services.gateway.core.cdc.types import FAMILIES, Family, family_of
from services.gateway.errors import RpcRefused
from tests.conformance.skeindb import vector

# What PostgreSQL prints for the vectors' values, and the type that has them.
PRINTED = {
    "bool": (Family.BOOL, b"t"),
    "i64": (Family.SIGNED, b"-1"),
    "u64": (Family.UNSIGNED, b"42"),
    "f64": (Family.FLOAT, b"3.14"),
    "dec": (Family.DECIMAL, b"12.3400"),
    "str": (Family.TEXT, b"hello"),
    "bytes": (Family.BYTES, b"\\x00010203"),
    "json": (Family.JSON, b'{"a": 1}'),
    "date": (Family.DATE, b"2026-01-18"),
    "time": (Family.TIME, b"12:34:56.789Z"),
    "datetime": (Family.MOMENT_ZONED, b"2026-01-18 12:34:56.789+00"),
    "uuid": (Family.UUID, b"550e8400-e29b-41d4-a716-446655440000"),
}


def shown(value):
    return orjson.loads(orjson.dumps(value))


@pytest.mark.parametrize(("typed", "plain"), vector("sk.lit")["pairs"], ids=str)
def test_s14_literals_of_the_document(typed, plain):
    if typed["t"] == "null":
        assert (typed, plain) == (TYPED_NULL, PLAIN_NULL)
        return
    family, text = PRINTED[typed["t"]]
    assert (shown(TYPED[family](text)), shown(PLAIN[family](text))) == (typed, plain)


@pytest.mark.parametrize(
    ("oid", "text", "typed", "plain"),
    [
        (23, b"-5", {"t": "i64", "v": -5}, -5),
        (26, b"4294967295", {"t": "u64", "v": 4294967295}, 4294967295),
        (701, b"NaN", {"t": "f64", "v": "NaN"}, "NaN"),
        (701, b"-Infinity", {"t": "f64", "v": "-Infinity"}, "-Infinity"),
        (1700, b"1e-400", {"t": "dec", "v": "1e-400"}, "1e-400"),
        (1114, b"2026-01-18 12:34:56", {"t": "datetime", "iso": "2026-01-18T12:34:56"}, "2026-01-18T12:34:56"),
        (1184, b"infinity", {"t": "datetime", "iso": "infinity"}, "infinity"),
        (1114, b"0044-03-15 12:00:00 BC", {"t": "datetime", "iso": "0044-03-15 12:00:00 BC"}, "0044-03-15 12:00:00 BC"),
        (1266, b"12:00:00+02", {"t": "time", "iso": "12:00:00+02"}, "12:00:00+02"),
        (17, b"\\x", {"t": "bytes", "b64": ""}, ""),
        (114, b'{\n "n": 123456789012345678901234567890}', None, None),
        (1186, b"1 day", {"t": "str", "v": "1 day"}, "1 day"),
        (1007, b"{1,2}", {"t": "str", "v": "{1,2}"}, "{1,2}"),
        (1042, b"ab  ", {"t": "str", "v": "ab  "}, "ab  "),
    ],
    ids=str,
)
def test_values_of_postgresql(oid, text, typed, plain):
    """S14: nothing is rounded; what is no number in JSON stays text, and JSON stays itself on one line."""
    family = family_of(oid)
    if typed is None:
        assert orjson.dumps(PLAIN[family](text)) == b'{  "n": 123456789012345678901234567890}'
        return
    assert (shown(TYPED[family](text)), shown(PLAIN[family](text))) == (typed, plain)


def test_every_family_is_shown():
    assert set(TYPED) == set(PLAIN) == set(Family) >= set(FAMILIES.values())


@pytest.mark.parametrize(
    ("literal", "text"),
    [
        ({"t": "null"}, None),
        ({"t": "bool", "v": False}, "false"),
        ({"t": "u64", "v": 2**64 - 1}, str(2**64 - 1)),
        ({"t": "bytes", "b64": "AAECAw=="}, "\\x00010203"),
        ({"t": "json", "v": {"a": [1]}}, '{"a":[1]}'),
        ({"t": "datetime", "iso": "2026-01-18T12:34:56Z"}, "2026-01-18T12:34:56Z"),
    ],
    ids=str,
)
def test_a_literal_is_read(literal, text):
    assert text_of(literal) == text


@pytest.mark.parametrize(
    "literal",
    [
        None,
        1,
        "x",
        [],
        {},
        {"t": 1},
        {"t": "nope", "v": 1},
        {"t": "i64"},
        {"t": "i64", "v": True},
        {"t": "i64", "v": 2**63},
        {"t": "u64", "v": -1},
        {"t": "bool", "v": 1},
        {"t": "f64", "v": "x"},
        {"t": "str", "v": 1},
        {"t": "str", "v": "a\0b"},
        {"t": "bytes", "b64": "?"},
        {"t": "bytes", "b64": 5},
    ],
    ids=repr,
)
def test_what_is_no_literal_is_refused(literal):
    with pytest.raises(RpcRefused) as refused:
        text_of(literal)
    assert refused.value.code == "invalid_request"
