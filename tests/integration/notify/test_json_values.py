"""Values as JSON, and results as sets, compared with PostgreSQL itself."""

import psycopg
import pytest

from services.recompute.core.notify.messages import RowPrinter
from services.recompute.core.notify.row_set import RowSet
from services.recompute.outbound.postgres.registrations import shapes_of

LITERALS = {
    "bool": ["t", "f"],
    "int2": ["-32768", "7"],
    "int4": ["0", "-2147483648"],
    "int8": ["9223372036854775807"],
    "numeric": ["1.50", "-0.00001", "NaN", "Infinity", "12345678901234567890.1234567890"],
    "float4": ["1.5", "-0", "1e20", "NaN", "-Infinity"],
    "float8": ["0.1", "1e-10", "123456789012345680", "Infinity"],
    "text": ["", 'a"b\\c', "line\nfeed\ttab\x01\x7f", "ü😀", "NULL"],
    "char(4)": ["ab"],
    "varchar": ["{x}"],
    "name": ["pg"],
    '"char"': ["c"],
    "bytea": ["\\x00ff"],
    "date": ["2020-02-29", "infinity", "0044-03-15 BC", "12345-01-01"],
    "timestamp": ["2020-01-01 12:34:56.789", "-infinity", "0044-03-15 00:00:00 BC"],
    "timestamptz": ["2020-01-01 12:34:56+00", "infinity", "1890-01-01 00:00:00+00", "0044-03-15 00:00:00+00 BC"],
    "time": ["12:34:56.5"],
    "timetz": ["12:34:56+02"],
    "interval": ["1 year 2 days 03:04:05", "-1 day"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "json": ['{"a" : [1, 2]}', "null"],
    "jsonb": ['{"a": [1, 2.50]}', '"x"'],
    "oid": ["4294967295"],
    "regclass": ["pg_class"],
    "regtype": ["integer"],
    "inet": ["10.0.0.1/8"],
    "cidr": ["10.0.0.0/8"],
    "macaddr": ["08:00:2b:01:02:03"],
    "bit(3)": ["101"],
    "varbit": ["1"],
    "money": ["12.34"],
    "point": ["(1,2)"],
    "box": ["(1,2),(0,0)"],
    "lseg": ["[(0,0),(1,1)]"],
    "path": ["((0,0),(1,1))"],
    "polygon": ["((0,0),(1,1),(1,0))"],
    "circle": ["<(0,0),1>"],
    "line": ["{1,2,3}"],
    "tsvector": ["'a':1 'b'"],
    "tsquery": ["'a' & 'b'"],
    "int4range": ["[1,5)", "empty"],
    "nummultirange": ["{[1.0,2.0)}"],
    "tstzrange": ["[2020-01-01 00:00:00+00,)"],
    "pg_lsn": ["0/16B3748"],
    "xid8": ["42"],
    "int2vector": ["1 2 3"],
    "oidvector": ["1 2"],
    "jsonpath": ["$.a"],
    "mood": ["sad \"one\""],
    "positive": ["1.50"],
    "positives": ["{1.5,2}"],
    "pair": ['(1,"a ""b"" \\\\c,")', "(,)", '(5,"")'],
    "nested": ['("(1,x)","{1,2}",t)'],
}  # fmt: skip
ARRAYS = {
    "int4[]": ["{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[0:1]={5,6}"],
    "text[]": ['{a,"b,c","NULL",NULL,"\\"q\\"",""," x "}', '{"{}"}'],
    "box[]": ["{(1,1),(0,0);(2,2),(1,1)}"],
    "timestamptz[]": ['{"2020-01-01 00:00:00+00"}'],
    "jsonb[]": ['{"{\\"a\\": 1}",NULL}'],
    "pair[]": ['{"(1,\\"a b\\")","(,)"}'],
    "bool[]": ["{t,f}"],
    "numeric[]": ["{1.50,NaN}"],
}
TYPES = """
    CREATE TYPE mood AS ENUM ('sad "one"', 'ok'); CREATE DOMAIN positive AS numeric CHECK (VALUE > 0);
    CREATE DOMAIN positives AS numeric[]; CREATE TYPE pair AS (a int, "b ""c" text);
    CREATE TYPE nested AS (p pair, list int[], flag bool)
"""


@pytest.fixture(scope="module")
def connection(postgres_server):
    with psycopg.connect(postgres_server.create_database("notify_json"), autocommit=True) as made:
        made.execute(TYPES)
        yield made
    postgres_server.drop_database("notify_json")


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
def test_a_value_of_every_type_is_printed_as_to_json_prints_it(connection, zone):
    """P11: numbers from PostgreSQL's text, nested arrays, composites, json."""
    connection.execute(f"SET TimeZone = '{zone}'; SET DateStyle = ISO")
    for name, literals in {**LITERALS, **ARRAYS}.items():
        for literal in [*literals, None]:
            plain = connection.execute(f"SELECT %s::text::{name} AS v", [literal])
            oid = plain.description[0].type_code
            raw = plain.pgresult.get_value(0, 0)
            ((wanted,),) = connection.execute(
                f"SELECT row_to_json(r)::text FROM (SELECT %s::text::{name} AS v) r", [literal]
            ).fetchall()
            printer = RowPrinter([("v", shapes_of(connection, [oid])[0])])
            assert printer((raw,)) == wanted, (name, literal, zone)


def test_every_built_in_type_is_among_the_values_or_prints_as_its_text(connection):
    """P11: no type of PostgreSQL's own has a form that is not known here."""
    rows = connection.execute(
        "SELECT oid::int8, typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace "
        "AND typtype IN ('b', 'r', 'm') AND typelem = 0 AND typname !~ '^pg_' AND typname NOT LIKE 'reg%'"
    ).fetchall()
    forms = dict(zip((name for _, name in rows), shapes_of(connection, [oid for oid, _ in rows]), strict=True))
    spoken = {name for name, shape in forms.items() if shape.form != "text"}
    assert spoken == {
        "bool", "int2", "int4", "int8", "float4", "float8", "numeric", "timestamp", "timestamptz", "json", "jsonb",
    }  # fmt: skip


def test_p14_sets_change_as_except_tells(connection):
    """P14, P15: generated rows with duplicates and NULLs, in steps, against PostgreSQL's EXCEPT."""
    connection.execute("CREATE TABLE old_rows (a int, b text, c numeric); CREATE TABLE new_rows (LIKE old_rows)")
    connection.execute("SELECT setseed(0.42)")
    make = (
        "INSERT INTO new_rows SELECT nullif((random() * 4)::int, 4), nullif(chr(97 + (random() * 3)::int), 'd'), "
        "(ARRAY[1.0, 1.00, 2.5, NULL])[1 + (random() * 3)::int] FROM generate_series(1, (random() * 25)::int)"
    )
    held = RowSet((23, 25, 1700), {})
    for _ in range(40):
        connection.execute("TRUNCATE new_rows")
        connection.execute(make)
        net = {}
        for table, weight in (("old_rows", -1), ("new_rows", 1)):
            for row in connection.execute(f"SELECT a::text, b, c::text FROM {table}").fetchall():
                key = tuple(None if value is None else value.encode() for value in row)
                net[key] = net.get(key, 0) + weight
        change = held.change([(row, weight) for row, weight in net.items() if weight])
        for one, other, found in (("new", "old", change.inserted), ("old", "new", change.deleted)):
            wanted = connection.execute(f"SELECT * FROM {one}_rows EXCEPT SELECT * FROM {other}_rows").fetchall()
            read = [(a and int(a), b and b.decode(), c and float(c)) for a, b, c in found]
            expected = [(a, b, c if c is None else float(c)) for a, b, c in wanted]
            assert sorted(read, key=repr) == sorted(expected, key=repr)
        connection.execute("TRUNCATE old_rows")
        connection.execute("INSERT INTO old_rows TABLE new_rows")
