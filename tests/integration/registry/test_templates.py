"""A template means to PostgreSQL exactly what the query meant."""

import os

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import pq

from services.registry.core.lifting import lifted, normalised

EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", 300))

SCHEMA = """
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    CREATE DOMAIN code AS varchar(5);
    CREATE TABLE t (
        i2 int2, i4 int4, i8 int8, n numeric, n2 numeric(10, 2), f4 float4, f8 float8, b bool, t text, v varchar(10),
        c char(5), nm name, q "char", d date, ts timestamp, tz timestamptz, iv interval, u uuid, j jsonb, m mood,
        p positive, k code, ia int[], ta text[], y bytea, cc text COLLATE "C", r int4range, o oid
    );
    INSERT INTO t SELECT s - 3, s - 3, s - 3, s * 1.5, s * 1.25, s * 1.5, s / 3.0, s % 2 = 0, 'x' || s, 'X' || s,
        'c' || s, 'n' || s, chr(97 + s), date '2024-01-01' + s, timestamp '2024-01-01' + s * interval '1 day',
        timestamptz '2024-01-01 UTC' + s * interval '1 hour', s * interval '1 day',
        ('00000000-0000-0000-0000-00000000000' || s)::uuid, jsonb_build_object('k', s, 's', 'x' || s),
        (ARRAY['sad', 'ok', 'happy'])[1 + s % 3]::mood, s + 1, 'k' || s, ARRAY[s, s + 1], ARRAY['x' || s],
        ('x0' || s)::bytea, 'X' || s, int4range(s, s + 5), s FROM generate_series(0, 9) s;
    INSERT INTO t DEFAULT VALUES;
    CREATE TABLE u AS SELECT i4 AS a, t AS b, d AS c, n2 AS e FROM t;
"""
CORPUS = [
    "SELECT * FROM t WHERE i4 = 5 AND t = 'x8'",
    'select T.i4 /* c */, "nm" from public.t as T where (I8 > -2) and not (n < 1.5) -- end',
    "SELECT count(*), b FROM t WHERE d >= '2024-01-03' GROUP BY b HAVING count(*) > 1 AND sum(i4) < 100 ORDER BY 2, 1",
    "SELECT i4 + 1 AS z FROM t WHERE i4 IN (1, 2.5, 3) GROUP BY i4 + 1 ORDER BY i4 + 1 LIMIT 3",
    "SELECT 'a', 5, 1.5, NULL, $1 FROM t WHERE i4 = $2 AND i8 = 2 AND i2 <> 7",
    "SELECT t.t FROM t LEFT JOIN u ON t.i4 = u.a AND u.b = 'x4' WHERE u.b IS NULL OR u.e BETWEEN 1 AND 5.5",
    "WITH w AS (SELECT i4 FROM t WHERE m = 'ok'), x AS (TABLE u) SELECT * FROM w JOIN x ON w.i4 = x.a WHERE x.a <> 4",
    "WITH RECURSIVE w(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM w WHERE n < 5) SELECT n FROM w WHERE n > 2",
    "SELECT i4 FROM t WHERE tz > '2024-01-01 03:00' AND ts < '2024-01-08' AND iv > '2 days'"
    " UNION SELECT a FROM u WHERE a = 4",
    "SELECT i4 FROM t WHERE u = '00000000-0000-0000-0000-000000000003' OR ia = '{1,2}' OR ta = '{x3}'"
    " OR j = '{\"k\": 1}'",
    "SELECT i4 FROM t WHERE p = 4 OR p = '5' OR k = 'k3' OR k IN ('k4', 'k5') OR q = 'c' OR nm = 'n1' OR c = 'c2'",
    "SELECT i4 FROM t WHERE j ->> 's' = 'x3' OR j -> 'k' = '4' OR r @> 3 AND r <> '[1,2)'",
    "SELECT DISTINCT ON (b) b, i4 FROM t WHERE i4 > 0 ORDER BY b, i4 DESC",
    "SELECT i4, rank() OVER (PARTITION BY b ORDER BY i4), lag(i4, 1, 0) OVER w FROM t"
    " WHERE f8 < 2 WINDOW w AS (ORDER BY i4)",
    "SELECT (SELECT max(a) FROM u WHERE u.a < 5), b FROM t GROUP BY b, (SELECT max(a) FROM u WHERE u.a < 5)",
    "SELECT count(*) FILTER (WHERE i4 = 5) FROM t WHERE cc < 'X5' AND t COLLATE \"C\" > 'x1'",
    "SELECT i4 FROM t WHERE b = true AND y = '\\x783031' OR y = 'x01' OR f4 = 1.5 OR f4 = '1.5' OR o = 4",
    "SELECT i4 FROM t WHERE t = 'x' \n '5' OR t = E'x\\u0036' OR t = U&'x\\0037' OR t = $a$x8$a$ OR t = 'it''s'",
    "SELECT s.i4 FROM (SELECT * FROM t WHERE i4 = -3 OR i4 = - 2) AS s, LATERAL (SELECT a FROM u WHERE a = s.i4) l",
    "SELECT i4 FROM t WHERE (i4, t) = (3, 'x6') OR ROW(i4, b) IN ((1, true)) OR i4 = ANY ('{2}') OR 5 = ANY (ia)",
    "SELECT i4::text, CAST(i4 AS numeric(5,1)), i4::numeric::int8 FROM t WHERE i4::text = '3' OR n::int = 6 OR 2 < i2",
    "SELECT CASE WHEN i4 = 1 THEN 'one' WHEN i4 = 2 THEN 'two' END FROM t"
    " WHERE CASE WHEN b THEN i4 = 1 ELSE i4 = 2 END",
    "SELECT -i4, - -i4, @ -i4, i4 % 3, 2 ^ i4, i4 # 1, ~i4, i4 << 1, i4 ^ -1 FROM (SELECT i4 FROM t WHERE i4 = 2) z",
    "SELECT extract(year FROM d), substring(t FROM 1 FOR 1), trim(both 'x' from t), overlay(t placing 'Z' from 1)"
    " FROM t",
    "SELECT ts AT TIME ZONE 'UTC', d + 1, now() > tz FROM t"
    " WHERE d = date '2024-01-02' OR d BETWEEN SYMMETRIC '2024-02-01' AND '2024-01-09'",
    "SELECT array_agg(i4 ORDER BY i4 DESC), string_agg(t, ', ' ORDER BY t) FROM t WHERE i4 IS DISTINCT FROM 4",
    "SELECT x.n FROM generate_series(1, 5) AS x(n) WHERE x.n >= 2 EXCEPT SELECT 3 INTERSECT VALUES (3), (4)",
    "SELECT i4 FROM t TABLESAMPLE BERNOULLI (100) WHERE i4 > 0 FETCH FIRST 2 ROWS ONLY",
    "SELECT grouping(b), b, count(*) FROM t WHERE i4 > 0 GROUP BY GROUPING SETS ((b), ()) ORDER BY 1, 2",
]


class Oracle:
    """PostgreSQL's own answers: names and types of the columns, and the rows as text."""

    def __init__(self, connection):
        self._server = connection.pgconn

    def answer(self, sql, values, types):
        prepared = self._server.prepare(b"", sql.encode(), types)
        if prepared.status != pq.ExecStatus.COMMAND_OK:
            return prepared.error_message.decode()
        described = self._server.describe_prepared(b"")
        columns = [(described.fname(n), described.ftype(n), described.fmod(n)) for n in range(described.nfields)]
        result = self._server.exec_prepared(b"", values)
        if result.status != pq.ExecStatus.TUPLES_OK:
            return result.error_message.decode()
        rows = [tuple(result.get_value(row, n) for n in range(result.nfields)) for row in range(result.ntuples)]
        return columns, sorted(rows, key=repr)

    def original(self, sql, parameters=()):
        return self.answer(sql, list(parameters), [0] * len(parameters))

    def template(self, sql, parameters=()):
        found = lifted(sql, len(parameters))
        return self.answer(found.sql, [*parameters, *found.values], [0] * len(parameters) + list(found.types))


@pytest.fixture(scope="module")
def connection(postgres_server):
    name = f"templates_{os.getpid()}"
    with psycopg.connect(postgres_server.create_database(name), autocommit=True) as connection:
        connection.execute(SCHEMA)
        yield connection
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def oracle(connection):
    return Oracle(connection)


@pytest.mark.parametrize("sql", CORPUS)
def test_a_template_answers_as_the_query_did(oracle, sql):
    parameters = [b"hello", b"2"] if "$1" in sql else []
    expected = oracle.original(sql, parameters)
    assert not isinstance(expected, str), expected
    assert oracle.template(sql, parameters) == expected


@pytest.mark.parametrize("sql", [sql for sql in CORPUS if "$1" not in sql])
def test_the_one_form_of_a_text_is_the_same_query_to_postgres(connection, oracle, sql):
    columns, _ = oracle.original(sql)
    names = ", ".join(f"c{number}" for number in range(len(columns)))

    def view(text):
        with connection.transaction(force_rollback=True):
            connection.execute(f"CREATE VIEW as_written ({names}) AS {text}\n".encode())
            return connection.execute("SELECT pg_get_viewdef('as_written')").fetchone()

    assert view(normalised(sql)) == view(sql)


NUMBERS = [
    "0",
    "5",
    "-3",
    "- 2",
    "2147483648",
    "-2147483648",
    "3.75",
    "1.50",
    "1e0",
    ".5",
    "9223372036854775808",
    "'4'",
]
TEXTS = ["'x8'", "'X4  '", "'c3'", "'ok'", "''", "'5'", "'n''1'"]
MOMENTS = ["'2024-01-03'", "'2024-01-03 05:00'", "'infinity'"]
# Operands, and literals of which most may stand beside them; what PostgreSQL refuses is left out.
FAMILIES = [
    (["i2", "i4", "i8", "n", "n2", "f4", "f8", "p", "o", "i4 + 1", "n * 2", "-i4", "abs(i8)", "length(t)"], NUMBERS),
    (
        ["t", "v", "c", "nm", "q", "k", "cc", "lower(t)", "t || 'z'", "coalesce(v, 'x8')", "i4::text", "j ->> 's'"],
        TEXTS,
    ),
    (["d", "ts", "tz", "date_trunc('day', ts)", "d + 1"], MOMENTS),
    (["iv", "m", "u", "b"], ["'3 days'", "'ok'", "'00000000-0000-0000-0000-000000000003'", "'t'"]),
    (["ia", "ta", "r", "j", "y"], ["'{3,4}'", "'{x3}'", "'[1,6)'", "'\"x\"'", "'{}'"]),
    (["i4", "t", "f8", "d", "k"], [*NUMBERS, *TEXTS, *MOMENTS]),
]
SIGNS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])


@st.composite
def comparisons(draw):
    operands, values = map(st.sampled_from, draw(st.sampled_from(FAMILIES)))
    operand, value, sign = draw(operands), draw(values), draw(SIGNS)
    match draw(st.integers(0, 3)):
        case 0:
            return f"{value} {sign} {operand}"
        case 1:
            return f"{operand} {draw(st.sampled_from(['BETWEEN', 'NOT BETWEEN']))} {value} AND {draw(values)}"
        case 2:
            members = ", ".join(draw(st.lists(values, min_size=1, max_size=4)))
            return f"{operand} {draw(st.sampled_from(['IN', 'NOT IN']))} ({members})"
        case _:
            return f"{operand} {sign} {value}"


CONDITIONS = st.recursive(
    comparisons(),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=3,
)
SHAPES = st.sampled_from(
    [
        "SELECT * FROM t WHERE {0}",
        "SELECT i4, 5, 'x' FROM t JOIN u ON t.i4 = u.a AND {0}",
        "SELECT b, count(*) FROM t WHERE {0} GROUP BY b HAVING count(*) > 0 ORDER BY 1 LIMIT 5",
        "WITH w AS (SELECT * FROM t WHERE {0}) SELECT count(*) FROM w WHERE {1}",
        "SELECT i4 FROM t WHERE EXISTS (SELECT 1 FROM u WHERE a = t.i4 AND {0}) UNION ALL SELECT i4 FROM t WHERE {1}",
        "SELECT {0} AS z, count(*) FROM t GROUP BY {0}",
        "SELECT i4, CASE WHEN {0} THEN 1 ELSE 2 END FROM t ORDER BY {1}, 1",
    ]
)


@pytest.mark.oracle
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=SHAPES, first=CONDITIONS, second=CONDITIONS)
def test_whatever_postgres_answers_to_a_query_it_answers_to_its_template(oracle, shape, first, second):
    sql = shape.format(first, second)
    expected = oracle.original(sql)
    # A query that PostgreSQL refuses is never subscribed to.
    if not isinstance(expected, str):
        assert oracle.template(sql) == expected
