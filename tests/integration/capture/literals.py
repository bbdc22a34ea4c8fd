"""Values of every built-in type as PostgreSQL reads them: a strategy for each family, found in pg_type at run time."""

import json
import re
from collections.abc import Sequence

import psycopg
from hypothesis import strategies as st
from msgspec import Struct

# Types that have no literal: PostgreSQL refuses every input for them.
WITHOUT_INPUT = (
    "gtsvector",
    "pg_brin_bloom_summary",
    "pg_brin_minmax_multi_summary",
    "pg_dependencies",
    "pg_mcv_list",
    "pg_ndistinct",
    "pg_node_tree",
)

Literal = st.SearchStrategy[str]


class BuiltIn(Struct, frozen=True):
    """A type of pg_catalog: what kind it is, its element (of a range), and what stands between its array's elements."""

    name: str
    kind: str  # pg_type.typtype: b(ase), r(ange), m(ultirange)
    category: str  # pg_type.typcategory
    element: str
    delimiter: str


def built_in(connection: psycopg.Connection) -> list[BuiltIn]:
    """Every type of this server that a column can have and that is not itself an array."""
    rows = connection.execute(
        """
        SELECT t.typname::text, t.typtype::text, t.typcategory::text, coalesce(e.typname::text, ''), t.typdelim::text
        FROM pg_type t
        LEFT JOIN pg_range r ON t.oid IN (r.rngtypid, r.rngmultitypid)
        LEFT JOIN pg_type e ON e.oid = r.rngsubtype
        WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype IN ('b', 'r', 'm') AND t.typisdefined
          AND (t.typcategory <> 'A' OR t.typname IN ('int2vector', 'oidvector')) AND t.typname <> ALL (%s)
        ORDER BY 1
        """,
        [[*WITHOUT_INPUT, *_not_built(connection)]],
    )
    return [BuiltIn(*row) for row in rows]


def _not_built(connection: psycopg.Connection) -> list[str]:
    """What this server was compiled without; its column can be made and takes no value."""
    try:
        connection.execute("SELECT '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        return ["xml"]
    return []


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ["", " ", "NULL", "null", '"', "'", "\\", "{}", "a,b", "naïve — 水 🜁", "\n\t\r", "x" * 3000]
)
DIGITS = st.from_regex(re.compile(r"-?[0-9]{1,40}(\.[0-9]{0,30})?", re.ASCII), fullmatch=True)
DATE = st.dates().map(str) | st.sampled_from(
    ["infinity", "-infinity", "4713-11-24 BC", "0044-03-15 BC", "0001-12-31 BC", "5874897-12-31", "1600-02-29"]
)
TIME = st.times().map(str) | st.sampled_from(["00:00:00", "24:00:00", "23:59:60", "12:00:00.000001"])
ZONE = st.sampled_from(["+00", "-15:59", "+05:30", "+13:45", "-03:30:17"])
STAMP = st.datetimes().map(str) | st.sampled_from(
    [
        "infinity",
        "-infinity",
        "4713-11-24 00:00:00 BC",
        "294276-12-31 23:59:59.999999",
        "0001-01-01 00:00:00 BC",
        "epoch",
    ]
)
FLOAT = st.floats(width=64).map(repr) | st.sampled_from(["NaN", "Infinity", "-Infinity", "-0", "1e-45", "3.4028235e38"])
POINT = st.tuples(FLOAT, FLOAT).map(lambda at: f"({at[0]},{at[1]})")
POINTS = st.lists(POINT, min_size=1, max_size=4).map(",".join)
HEX = st.text("0123456789abcdef", min_size=12, max_size=12)
ADDRESS = (st.ip_addresses(v=4) | st.ip_addresses(v=6)).map(str) | st.sampled_from(
    ["10.1.2.3/8", "::1/64", "::ffff:1.2.3.4/128", "0.0.0.0/0"]
)
NETWORK = st.ip_addresses(v=4, network="10.0.0.0/8").map(lambda at: f"{at}/32") | st.sampled_from(
    ["10/8", "::/0", "2001:db8::/32", "192.168.1.0/24"]
)
BITS = st.text("01", max_size=70)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
INTERVAL = st.tuples(
    st.integers(-5000, 5000), st.integers(-40, 40), st.integers(-900, 900), st.integers(-(10**13), 10**13)
).map(lambda of: f"{of[0]} years {of[1]} mons {of[2]} days {of[3] / 1e6:.6f} secs") | st.sampled_from(
    ["0", "-178000000 years", "178000000 years", "1 day -00:00:00.000001", "P1Y2M3DT4H5M6S", "infinity", "-infinity"]
)


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _whole(bits: int, *, signed: bool = True) -> Literal:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return (st.integers(low, high) | st.sampled_from([low, high, 0])).map(str)


def _in_order(numbers: st.SearchStrategy[int]) -> Literal:
    return st.lists(numbers, max_size=4).map(lambda drawn: ",".join(map(str, sorted(set(drawn)))))


FAMILIES: dict[str, Literal] = {
    "bool": st.sampled_from(["t", "f"]),
    "int2": _whole(16),
    "int4": _whole(32),
    "int8": _whole(64),
    "oid": _whole(32, signed=False),
    "xid": _whole(32, signed=False),
    "cid": _whole(32, signed=False),
    "xid8": _whole(64, signed=False),
    "float4": st.floats(width=32).map(repr) | st.sampled_from(["NaN", "Infinity", "-0", "1e-45"]),
    "float8": FLOAT,
    "numeric": DIGITS | st.sampled_from(["NaN", "Infinity", "-Infinity", "0.00", "1e131071", "1e-16383", "9" * 900]),
    "money": st.integers(-(1 << 63), (1 << 63) - 1).map(lambda cents: f"{cents / 100:.2f}") | st.just("-0.01"),
    "text": TEXT,
    "varchar": TEXT,
    "bpchar": TEXT,
    "refcursor": TEXT,
    "name": TEXT,
    "char": st.sampled_from(["", "a", "\\303", " "]),
    "bytea": st.binary(max_size=40).map(lambda raw: "\\x" + raw.hex()),
    "date": DATE,
    "time": TIME,
    "timetz": st.tuples(TIME, ZONE).map("".join),
    "timestamp": STAMP,
    "timestamptz": st.tuples(STAMP, st.sampled_from(["", "+00", "-11:30"])).map("".join) | STAMP,
    "interval": INTERVAL,
    "uuid": st.uuids().map(str),
    "json": JSON.map(_json_text),
    "jsonb": JSON.map(_json_text),
    "jsonpath": st.sampled_from(["$", "$.a[*] ? (@ > 1)", 'strict $."ключ"[0 to last]', "lax $.b.size() + 1"]),
    "xml": st.sampled_from(
        ["", "<a/>", "<ключ>水</ключ>", '<?xml version="1.0" encoding="UTF-8"?><a b="c"> d </a>', "x"]
    ),
    "tsvector": st.sampled_from(["", "a:1 b:2A,3", "'don''t':4C 'naïve'", "fat cat"]),
    "tsquery": st.sampled_from(["", "a & !b", "'x y' <2> z:*AB", "(a | b) & c"]),
    "bit": BITS,
    "varbit": BITS,
    "inet": ADDRESS,
    "cidr": NETWORK,
    "macaddr": HEX,
    "macaddr8": HEX.map(lambda drawn: drawn + "0aff"),
    "point": POINT,
    "line": st.tuples(FLOAT, FLOAT).map(lambda of: "{1," + ",".join(of) + "}") | st.just("{0,-1,0}"),
    "lseg": st.tuples(POINT, POINT).map(lambda of: "[" + ",".join(of) + "]"),
    "box": st.tuples(POINT, POINT).map(",".join),
    "path": POINTS.map(lambda of: f"[{of}]") | POINTS.map(lambda of: f"({of})"),
    "polygon": POINTS.map(lambda of: f"({of})"),
    "circle": st.tuples(POINT, FLOAT).map(lambda of: f"<{of[0]},{of[1]}>"),
    "pg_lsn": st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)).map(lambda at: f"{at[0]:X}/{at[1]:X}"),
    "tid": st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1)).map(lambda at: f"({at[0]},{at[1]})"),
    "pg_snapshot": _in_order(st.integers(10, 19)).map(lambda running: f"10:20:{running}"),
    "txid_snapshot": _in_order(st.integers(10, 19)).map(lambda running: f"10:20:{running}"),
    "int2vector": st.lists(_whole(16), max_size=4).map(" ".join),
    "oidvector": st.lists(_whole(32, signed=False), max_size=4).map(" ".join),
    "aclitem": st.sampled_from(["postgres=r/postgres", "=arwdDxt*/postgres", "postgres=X*/postgres"]),
    "regclass": st.sampled_from(["pg_class", "pg_catalog.pg_type", "-", "4294967295"]),
    "regtype": st.sampled_from(["int4", "text[]", "timestamp with time zone", "-", "4294967295"]),
    "regproc": st.sampled_from(["now", "-", "4294967295"]),
    "regprocedure": st.sampled_from(["lower(text)", "-", "4294967295"]),
    "regoper": st.sampled_from(["pg_catalog.||/", "0", "4294967295"]),
    "regoperator": st.sampled_from(["+(int4,int4)", "0", "4294967295"]),
    "regnamespace": st.sampled_from(["pg_catalog", "public", "-"]),
    "regrole": st.sampled_from(["postgres", "-", "4294967295"]),
    "regcollation": st.sampled_from(['"C"', '"POSIX"', "-"]),
    "regconfig": st.sampled_from(["simple", "english", "-"]),
    "regdictionary": st.sampled_from(["simple", "-"]),
    "regdatabase": st.sampled_from(["template1", "-"]),
}


def scalars(kind: BuiltIn) -> Literal:
    """Literals of a type; for one that nobody has met yet, words that many types accept."""
    if kind.kind == "r":
        return ranges(FAMILIES[kind.element])
    if kind.kind == "m":
        return st.lists(ranges(FAMILIES[kind.element]), max_size=3).map(lambda of: "{" + ",".join(of) + "}")
    return FAMILIES.get(kind.name, st.sampled_from(["", "0", "-", "1", "a", "t", "{}", "(0,0)"]))


def ranges(bound: Literal) -> Literal:
    """Ranges as text; those whose bounds are the wrong way round are for PostgreSQL to refuse."""

    def spelled(drawn: tuple[str, str | None, str | None, str]) -> str:
        opening, low, high, closing = drawn
        return opening + ",".join("" if end is None else quoted(end) for end in (low, high)) + closing

    ends = st.none() | bound
    return st.just("empty") | st.tuples(st.sampled_from("[("), ends, ends, st.sampled_from("])")).map(spelled)


def arrays(element: Literal, delimiter: str = ",") -> Literal:
    """Arrays of up to two dimensions, with NULLs, empty ones, and ones that do not begin at 1."""
    items = st.none() | element
    flat = st.lists(items, max_size=3).map(lambda of: braced(of, delimiter))
    square = st.lists(st.tuples(items, items), min_size=1, max_size=3).map(
        lambda rows: "{" + delimiter.join(braced(row, delimiter) for row in rows) + "}"
    )
    shifted = st.lists(items, min_size=2, max_size=2).map(lambda of: "[-3:-2]=" + braced(of, delimiter))
    return flat | square | shifted


def braced(items: Sequence[str | None], delimiter: str) -> str:
    return "{" + delimiter.join("NULL" if item is None else quoted(item) for item in items) + "}"


def composites(fields: Sequence[Literal]) -> Literal:
    """Rows of a composite type; a field that is NULL is written as nothing."""
    return st.tuples(*(st.none() | field for field in fields)).map(
        lambda of: "(" + ",".join("" if item is None else quoted(item) for item in of) + ")"
    )


def quoted(item: str) -> str:
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'
