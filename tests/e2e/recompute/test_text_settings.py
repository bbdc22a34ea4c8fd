"""Two subscribers of the same SQL on connections with other settings: each gets what its own SELECT prints."""

from collections import Counter

import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings

COLUMNS = {
    "at": "timestamptz",
    "local": "timestamp",
    "day": "date",
    "clock": "time",
    "zoned": "timetz",
    "span": "interval",
    "raw": "bytea",
    "single": "real",
    "double": "double precision",
    "days": "date[]",
    "era": "tstzrange",
}
ROWS = [
    "(1, '2026-03-29 00:59:59.5+00', '2026-03-29 01:30', '2026-03-29', '23:59:59.999999', '12:00+05:30', "
    "'1 year 2 mons -3 days 04:05:06.7', '\\x00ff41', 0.1, 0.1, '{2026-01-02,2025-12-31}', "
    "'[2026-01-01 00:00+00, 2026-06-01 00:00+00)')",
    "(2, '0044-03-15 12:00+00 BC', '4713-01-01 00:00 BC', '0001-01-01 BC', '00:00', '00:00-14', '-1 days', "
    "'', 1e-30, 1e300, '{}', 'empty')",
    "(3, 'infinity', '-infinity', 'infinity', '24:00', '24:00+00', 'PT0S', '\\xdeadbeef', 'NaN', '-Infinity', "
    "'{NULL}', '(,)')",
    "(4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(5, '1910-01-01 00:00:00.000001+00', '2026-12-31 23:59:59', '12345-06-07', '12:34', '12:34:56.7+01', "
    "'25:00:00', '\\x5c27', 3.4028235e38, 0.30000000000000004, '{9999-12-31}', '(,2026-01-01 00:00+00]')",
]
SETTINGS = {
    "plain": TextSettings(
        time_zone="UTC", date_style="ISO, MDY", interval_style="postgres", bytea_output="hex", extra_float_digits=1
    ),
    "berlin": TextSettings(
        time_zone="Europe/Berlin",
        date_style="German, DMY",
        interval_style="iso_8601",
        bytea_output="escape",
        extra_float_digits=0,
    ),
    "new york": TextSettings(
        time_zone="America/New_York",
        date_style="SQL, DMY",
        interval_style="sql_standard",
        bytea_output="hex",
        extra_float_digits=-5,
    ),
    "kolkata": TextSettings(
        time_zone="Asia/Kolkata",
        date_style="Postgres, MDY",
        interval_style="postgres_verbose",
        bytea_output="escape",
        extra_float_digits=3,
    ),
    "by offset": TextSettings(
        time_zone="<+0330>-03:30",
        date_style="ISO, DMY",
        interval_style="postgres",
        bytea_output="hex",
        extra_float_digits=-15,
    ),
}


@pytest.fixture
def table(connection, own):
    columns = ", ".join(f"{name} {type}" for name, type in COLUMNS.items())
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, {columns})")
    connection.execute(f"INSERT INTO {own} VALUES {', '.join(ROWS)}")
    return own


def test_each_subscriber_reads_what_its_own_select_prints(road, connection, table):
    statements = [
        f"SELECT * FROM {table}",
        *(f"SELECT id, {name} FROM {table}" for name in COLUMNS),
        f"SELECT max(at), min(local), max(day), max(double), min(single) FROM {table}",
        f"SELECT at::date, at::text, day::timestamp, local::date FROM {table} WHERE id <> 3",
        f"SELECT id FROM {table} WHERE at >= '2026-03-29 01:00' OR day < '01/02/2025'",
    ]
    followers = [road.ask(road.query(sql, settings=settings)) for sql in statements for settings in SETTINGS.values()]
    assert len({follower.query.query_id for follower in followers}) == len(statements) * len(SETTINGS)
    road.until(lambda: all(one.has_begun for one in followers), "first results", 240)
    for follower in followers:
        check(road, follower)
    connection.execute(
        f"UPDATE {table} SET at = '2026-10-25 01:30+00', local = '2026-10-25 02:30', day = '2026-10-25', "
        f"span = '1 mon -1 day', raw = '\\x0d0a', single = 16777216, double = 1e15 + 0.5 WHERE id IN (1, 4)"
    )
    connection.execute(f"INSERT INTO {table} (id, at, double) VALUES (6, 'epoch', -0.0)")
    connection.execute(f"DELETE FROM {table} WHERE id = 2")
    road.catch_up(*followers, within_s=240)
    for follower in followers:
        check(road, follower)


def check(road, follower):
    text = follower.query.text_settings
    assert follower.error is None, (follower.query.sql, text.time_zone, follower.error)
    assert follower.rows == Counter(road.answer(follower.query)), (follower.query.sql, text.time_zone)


def test_the_log_and_the_first_result_print_the_same_for_values_that_only_pass_through(road, connection, table):
    """Loaded by COPY, or come by the log: the same bytes."""
    follower = road.good(f"SELECT * FROM {table} WHERE id > 0", settings=SETTINGS["new york"])
    connection.execute(f"CREATE TABLE {table}_kept AS SELECT * FROM {table}")
    connection.execute(f"DELETE FROM {table}")
    connection.execute(f"INSERT INTO {table} SELECT * FROM {table}_kept")
    first = follower.rows
    road.holds(follower)
    assert follower.rows == first


def test_settings_by_which_a_text_means_something_else_are_the_subscribers_own(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, words text, a text[], m money)")
    connection.execute(f"INSERT INTO {own} VALUES (1, 'the running dogs', NULL, 5), (2, NULL, '{{a}}', 7.5)")
    asked = {
        f"SELECT id FROM {own} WHERE words = NULL": {"transform_null_equals": ("on", "off")},
        f"SELECT id, to_tsvector(words) FROM {own}": {
            "default_text_search_config": ("pg_catalog.simple", "pg_catalog.english")
        },
        f"SELECT id, '{{NULL,x}}'::text[] || a FROM {own}": {"array_nulls": ("on", "off")},
        f"SELECT id FROM {own} WHERE ('{{NULL,x}}'::text[])[1] IS NULL": {"array_nulls": ("on", "off")},
        f"SELECT id, to_char(id, 'L9') FROM {own}": {"lc_monetary": ("C", "C.UTF-8")},
    }
    followers = [
        road.good(sql, settings_read={name: value})
        for sql, settings in asked.items()
        for name, values in settings.items()
        for value in values
    ]
    assert len({follower.query.template_id for follower in followers}) == len(followers)
    assert followers[0].rows != followers[1].rows
    assert followers[2].rows != followers[3].rows
    connection.execute(f"INSERT INTO {own} VALUES (3, NULL, '{{b}}', 1)")
    connection.execute(f"UPDATE {own} SET words = 'dogs' WHERE id = 2")
    road.holds(*followers)
