"""V44, V45: by which columns of a result its rows are known; what is not certain is no key.

The vectors are upstream's. Ours differ on purpose where upstream guesses: without certainty there is no key at all
instead of column 0 (errata 2.1, point 8), and a composite key counts only as a whole (point 9).
"""

import os
import re

import psycopg
import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres
from services.chassis.refusal import Refused
from services.recompute.core.planning import plan
from services.recompute.inbound.catalog import CatalogReader
from tests.conformance.vectors import of_kind
from tests.oracle.local import _without_obstacles as in_the_log

SETTINGS = TextSettings(
    time_zone="UTC", date_style="ISO, MDY", interval_style="postgres", bytea_output="hex", extra_float_digits=1
)
# The tables that the vectors' origin names.
SCHEMA = """
    CREATE TABLE users (id int PRIMARY KEY, name text, email text);
    CREATE TABLE orders (order_id int, user_id int, amount int, status text, PRIMARY KEY (order_id, user_id));
    CREATE TABLE keyless (id int UNIQUE, name text);
"""
KEY_COLUMNS = {"users": 1, "orders": 2}
NO_KEY = ()


@pytest.fixture(scope="module")
def keys_of(postgres_server):
    """The positions of a query's certain key, however it is kept: by Spark from the log, or by PostgreSQL."""
    name = f"keys_{os.getpid()}"
    dsn = postgres_server.create_database(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SCHEMA)
    with CatalogReader(Postgres(dsn=dsn)) as reader:
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
    postgres_server.drop_database(name)


def is_certain(vector):
    """Whether upstream is certain, and not by a part of a composite key."""
    table = re.search(r"\bFROM\s+(\w+)", vector["sql"], re.IGNORECASE)
    return vector["confident"] and len(vector["pk_columns"]) == KEY_COLUMNS[table[1].lower()]


@of_kind("pk_detect")
def test_v45_the_certain_key_of_a_result(keys_of, vector):
    assert keys_of(vector["sql"]) == {tuple(vector["pk_columns"]) if is_certain(vector) else NO_KEY}


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
    ],
)
def test_v44_what_is_not_certain_is_no_key(keys_of, sql, key):
    """Errata 2.1, points 8 and 9. A unique column may be NULL in many rows; the far side of an outer join as well."""
    assert keys_of(sql) == {key}
