"""V44, V45: by which columns of a result its rows are known; what is not certain is no key.

The vectors are upstream's. Ours differ on purpose where upstream guesses: without certainty there is no key at all
instead of column 0 (errata 2.1, point 8), and a composite key counts only as a whole (point 9). Where upstream does not
look (subqueries, joins), ours may be certain: then PostgreSQL must find no two rows with the same key.
"""

import os
import re

import psycopg
import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres
from services.recompute.core.planning import plan
from services.recompute.outbound.postgres.catalog import CatalogReader
from services.sqlguard.refusal import Refused
from tests.conformance.vectors import of_kind
from tests.oracle.local import without_obstacles as in_the_log

SETTINGS = TextSettings(
    time_zone="UTC", date_style="ISO, MDY", interval_style="postgres", bytea_output="hex", extra_float_digits=1
)
# The tables that the vectors' origin names.
SCHEMA = """
    CREATE TABLE users (id int PRIMARY KEY, name text, email text);
    CREATE TABLE orders (order_id int, user_id int, amount int, status text, PRIMARY KEY (order_id, user_id));
    CREATE TABLE keyless (id int UNIQUE, name text);
    CREATE TABLE parent (id int PRIMARY KEY, name text);
    CREATE TABLE child () INHERITS (parent);
    INSERT INTO parent VALUES (1, 'same'), (2, 'same');
    INSERT INTO child VALUES (1, 'same'), (1, 'same');
    INSERT INTO users SELECT n, 'same', 'same' FROM generate_series(1, 4) n;
    INSERT INTO orders SELECT n, m, 1, 'same' FROM generate_series(1, 4) n, generate_series(1, 4) m;
"""
KEY_COLUMNS = {"users": 1, "orders": 2}
NO_KEY = ()


@pytest.fixture(scope="module")
def dsn(postgres_server):
    name = f"keys_{os.getpid()}"
    dsn = postgres_server.create_database(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SCHEMA)
    yield dsn
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def keys_of(dsn):
    """The positions of a query's certain key, however it is kept: by Spark from the log, or by PostgreSQL."""
    with CatalogReader(Postgres(dsn=dsn, superusers_subscribe=True)) as reader:
        role = psycopg.conninfo.conninfo_to_dict(dsn)["user"]

        def keys(sql):
            query = Query(sql=sql, template_sql=sql, role=role, search_path=["public"], text_settings=SETTINGS)
            try:
                described = reader.describe(query)
            except Refused:
                return {NO_KEY}
            # No capture watches this database: as it is PostgreSQL runs all of it.
            return {plan(sql, "", one, SETTINGS).key_positions for one in (described, in_the_log(described))}

        yield keys


def tells_apart(dsn, sql, key):
    """Whether no two rows of the answer are equal in these columns."""
    with psycopg.connect(dsn) as connection:
        keys = [tuple(row[at] for at in key) for row in connection.execute(sql)]
    return len(keys) > 1 and len(set(keys)) == len(keys)


def is_certain(vector):
    """Whether upstream is certain, and not by a part of a composite key."""
    table = re.search(r"\bFROM\s+(\w+)", vector["sql"], re.IGNORECASE)
    return vector["confident"] and len(vector["pk_columns"]) == KEY_COLUMNS[table[1].lower()]


@of_kind("pk_detect")
def test_v45_the_certain_key_of_a_result(dsn, keys_of, vector):
    found = keys_of(vector["sql"])
    if is_certain(vector):
        assert found == {tuple(vector["pk_columns"])}
    else:
        assert all(tells_apart(dsn, vector["sql"], key) for key in found - {NO_KEY})


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT order_id, amount FROM orders", NO_KEY),
        ("SELECT user_id, status, order_id FROM orders", (0, 2)),
        ("SELECT amount, status FROM orders", NO_KEY),
        ("SELECT id, name FROM keyless", NO_KEY),
        ("SELECT id FROM users UNION SELECT user_id FROM orders", NO_KEY),
        ("SELECT name, count(*) FROM users GROUP BY name", NO_KEY),
        ("SELECT id + 1, name FROM users", NO_KEY),
        ("SELECT * FROM users u LEFT JOIN orders o ON o.user_id = u.id", NO_KEY),
        ("SELECT u.id, o.order_id FROM users u JOIN orders o ON u.id = o.user_id", NO_KEY),
        ("SELECT name, email FROM users", NO_KEY),
        ("SELECT 1 + 1", NO_KEY),
        ("SELECT * FROM nonexistent", NO_KEY),
    ],
)
def test_v44_what_is_not_certain_is_no_key(keys_of, sql, key):
    """Errata 2.1, points 8 and 9. A unique column may be NULL in many rows; the far side of an outer join as well."""
    assert keys_of(sql) == {key}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, unnest(ARRAY[1, 2]) FROM users",
        "SELECT id, generate_series(1, 2) FROM users",
        "SELECT id, json_array_elements('[1, 2]'::json)::text FROM users",
        "SELECT id, regexp_split_to_table('a b', ' ') FROM users",
        "SELECT id, name FROM users, generate_series(1, 2)",
        "SELECT u.id, u.name FROM users u CROSS JOIN LATERAL (VALUES (1), (2)) v",
        "SELECT u.id, x.name FROM users u LEFT JOIN users x ON x.name = u.name",
        "SELECT id, name FROM parent",
        "SELECT id, name FROM users AS u (name, id)",
        "SELECT id, 1 FROM users UNION ALL SELECT id, 1 FROM users",
        "SELECT id % 2 AS id, name FROM users",
        "SELECT name AS id, email FROM users",
        "SELECT DISTINCT name, email FROM users",
        "SELECT o.user_id, o.status, count(*) FROM orders o GROUP BY ROLLUP (o.user_id, o.status)",
        "SELECT id, name FROM users GROUP BY GROUPING SETS ((id, name), (id, name))",
        "SELECT order_id, amount, sum(user_id) FROM orders GROUP BY order_id, amount",
        "SELECT order_id, amount, sum(user_id) OVER () FROM orders",
        "SELECT r.id, r.name FROM (SELECT u.* FROM users u JOIN orders o ON o.user_id = u.id) AS r",
        "WITH w AS (SELECT * FROM users UNION ALL SELECT * FROM users) SELECT id, name FROM w",
        "SELECT (u).id, (u).name FROM users u, orders",
        "SELECT * FROM users NATURAL JOIN (SELECT 1 AS one UNION ALL SELECT 2) AS twice",
        "SELECT users.id, users.name FROM users, users AS again",
    ],
)
def test_v45_a_key_that_was_found_tells_all_rows_apart(dsn, keys_of, sql):
    """Whatever multiplies rows: a wrong key would send one row's change as another's."""
    assert all(tells_apart(dsn, sql, key) for key in keys_of(sql) - {NO_KEY})
