"""Types that lose nothing: exact on Spark or by PostgreSQL, from the base load, from the log, and when compared."""

from collections import Counter
from itertools import zip_longest

import pytest

# For each type: literals to begin with, and literals to change to.
TYPES = {
    "numeric": ["1", "1.0", "1.00", "0.1", "NaN", "Infinity", "1e-60", "9" * 60, "-0.000", "12345678901234567890.5"],
    "numeric(10, 2)": ["1", "0.005", "99999999.99", "-0.01", "0"],
    "numeric(38, 10)": ["1234567890123456789012345678.0123456789", "0.0000000001", "-1"],
    "numeric(5, -2)": ["12345", "149", "-151"],
    "float8": ["0.1", "1e-323", "1e308", "-0", "NaN", "Infinity", "0.30000000000000004", "1e15", "123456789012345680"],
    "float4": ["0.1", "1e-45", "3.4028235e38", "-0", "NaN", "16777216", "1e15"],
    "bigint": ["9223372036854775807", "-9223372036854775808", "0"],
    "bool": ["t", "f"],
    "text": ["", " ", "é", "e\\u0301", "a\tb\nc", 'quote " and , comma', "\\N", "\\.", "NULL", "ß", "𝒳"],
    "varchar(5)": ["", "abc  ", "ABC"],
    "char(5)": ["", "ab", "ab   ", "AB"],
    "bytea": ["\\x", "\\x00", "\\xff00ff", "\\x5c"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"],
    "date": ["2026-02-28", "infinity", "-infinity", "4713-01-01 BC", "5874897-12-31"],
    "timestamp": ["2026-03-29 02:30", "infinity", "1969-12-31 23:59:59.999999", "294276-12-31 23:59:59.999999"],
    "timestamptz": ["2026-03-29 02:30+02", "-infinity", "0001-01-01 00:00+00 BC"],
    "timestamp(0)": ["2026-01-01 00:00:00.5", "2026-01-01 00:00:01.5"],
    "interval": ["1 mon", "30 days", "720:00:00", "-1 year 3 days", "0"],
    "int[]": ["{1,NULL,3}", "{}", "{{1,2},{3,4}}", "[0:1]={7,8}"],
    "text[]": ['{a,"b c",NULL,"NULL",""}', "{}"],
    "jsonb": ['{"b": 1, "a": [1, 2.50, null]}', "null", '"x"', "1.10"],
    "json": ['{"b":1,  "a":2}', "[]"],
    "inet": ["10.0.0.1", "10.0.0.0/8", "::1"],
    "point": ["(1,2.5)", "(-0,1e300)"],
    "int4range": ["[1,5)", "empty", "(,3]"],
    "bit varying(8)": ["101", ""],
    "tsvector": ["a:1 b:2,3"],
    "money": ["12.34", "-1"],
    "{own}_mood": ["sad", "ok", "happy"],
    "{own}_short": ["3", "-3"],
    "{own}_pair": ['(1,"a b")', "(,)"],
}

WITHOUT_EQUALITY = ("json", "point")


def test_every_type_passes_through_and_is_compared_as_postgres_does(road, connection, own):
    connection.execute(f"CREATE TYPE {own}_mood AS ENUM ('sad', 'ok', 'happy')")
    connection.execute(f"CREATE DOMAIN {own}_short AS smallint CHECK (value <> 7)")
    connection.execute(f"CREATE TYPE {own}_pair AS (a int, b text)")
    types = {f"c{number}": type.format(own=own) for number, type in enumerate(TYPES)}
    columns = ", ".join(f"{column} {type}" for column, type in types.items())
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, {columns})")
    insert = f"INSERT INTO {own} VALUES (%s, {', '.join(f'%s::text::{type}' for type in types.values())})"
    with connection.cursor() as cursor:
        literals = list(zip_longest(*TYPES.values()))
        cursor.executemany(insert, [(number, *given) for number, given in enumerate(literals)])
    statements, loose = [f"SELECT * FROM {own}", f"SELECT * FROM {own} WHERE c0 IS NOT NULL AND id < 3"], set()
    for column, type in types.items():
        if type not in WITHOUT_EQUALITY:
            grouped = f"SELECT {column}, count(*) FROM {own} GROUP BY {column}"
            statements += [grouped, f"SELECT a.id, b.id FROM {own} a JOIN {own} b ON a.{column} = b.{column}"]
            # Of values that are equal and print differently (1.0 and 1.00) any one may stand for its group.
            loose |= {grouped} if type in ("numeric", "interval") else set()
    sorted_by = ["numeric(10, 2)", "float8", "text", "char(5)", "uuid", "date", "timestamptz", f"{own}_mood", "bool"]
    statements += [
        f"SELECT id, {column} FROM {own} ORDER BY {column} DESC, id LIMIT 4"
        for column, type in types.items()
        if type in sorted_by
    ]
    followers = [road.ask(road.query(sql)) for sql in statements]
    road.until(lambda: all(one.has_begun for one in followers), "first results", 240)
    check(road, followers, loose)
    # The log's text, where the base was a COPY: values that stand twice, once by each way.
    names = ", ".join(types)
    connection.execute(f"INSERT INTO {own} (id, {names}) SELECT id + 100, {names} FROM {own}")
    connection.execute(f"DELETE FROM {own} WHERE id IN (1, 102)")
    connection.execute(f"UPDATE {own} SET ({names}) = (SELECT {names} FROM {own} WHERE id = 0) WHERE id = 5")
    road.catch_up(*followers, within_s=240)
    check(road, followers, loose)


def check(road, followers, loose):
    wrong = {}
    for follower in followers:
        told, answer = follower.rows, Counter(road.answer(follower.query))
        same = told.total() == answer.total() if follower.query.sql in loose else told == answer
        if follower.error is not None or not same:
            wrong[follower.query.sql] = follower.error or (told - answer, answer - told)
    assert wrong == {}


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "keyless"])
def test_a_value_as_wide_as_toast_survives_an_update_that_does_not_touch_it(road, connection, own, keyed):
    connection.execute(f"CREATE TABLE {own} (id int {'PRIMARY KEY' if keyed else ''}, small int, wide text)")
    connection.execute(f"ALTER TABLE {own} ALTER COLUMN wide SET STORAGE EXTERNAL")
    connection.execute(f"INSERT INTO {own} SELECT n, n, repeat(n::text, 20000) FROM generate_series(1, 3) n")
    followers = [road.good(f"SELECT * FROM {own}"), road.good(f"SELECT id, length(wide) FROM {own} WHERE small > 1")]
    connection.execute(f"UPDATE {own} SET small = small + 10")
    road.holds(*followers)
    connection.execute(f"UPDATE {own} SET wide = repeat('x', 30000) WHERE id = 2")
    connection.execute(f"DELETE FROM {own} WHERE id = 3")
    road.holds(*followers)
