"""Which queries are kept by looking at changed rows alone, and which are refused by name."""

import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.predicate import Comparison, IsNull, Junction, Negation
from services.recompute.core.query import bind, parse
from services.recompute.core.table import Table, TableColumn
from services.recompute.errors import NotSupported

TYPES = {"id": "int4", "customer": "int8", "status": "text", "paid": "bool", "at": "timestamptz", "price": "numeric"}
TABLE = Table(
    oid=1,
    schema="public",
    name="orders",
    columns=tuple(
        TableColumn(name=name, type_oid=0, type_modifier=-1, type_name=type_name, deterministic=True)
        for name, type_name in TYPES.items()
    ),
    key=(0,),
)


def bound(sql, parameters=(), filter_sql="", zone="UTC"):
    settings = TextSettings(time_zone=zone, date_style="ISO, MDY", extra_float_digits=1)
    return bind(parse(sql), TABLE, parameters=parameters, filter_sql=filter_sql, text_settings=settings)


@pytest.mark.parametrize(
    ("where", "predicate"),
    [
        ("customer = 7", Comparison(1, "=", 7)),
        ("7 < customer", Comparison(1, ">", 7)),
        ("customer >= -9223372036854775808", Comparison(1, ">=", -(2**63))),
        ("status <> 'it''s'", Comparison(2, "<>", "it's")),
        ("customer = '7'", Comparison(1, "=", 7)),
        ("customer = $1", Comparison(1, "=", 42)),
        ("status = $2", Comparison(2, "=", None)),
        ("paid", Comparison(3, "=", True)),
        ("NOT paid = false", Negation(Comparison(3, "=", False))),
        ("status IS NOT NULL", Negation(IsNull(2))),
        (
            "id = 1 OR (id = 2 AND status = 'a')",
            Junction("or", Comparison(0, "=", 1), Junction("and", Comparison(0, "=", 2), Comparison(2, "=", "a"))),
        ),
    ],
)
def test_conditions_that_spark_decides_as_postgres_does(where, predicate):
    assert bound(f"SELECT id FROM orders WHERE {where}", (b"42", None)).predicate == predicate


@pytest.mark.parametrize(
    "where",
    [
        "status > 'a'",
        "price = 1",
        "customer = 7.5",
        "customer = id",
        "id = '99999999999'",
        "customer = 9223372036854775808",
        "status LIKE 'a%'",
        "customer IN (1, 2)",
        "lower(status) = 'a'",
        "customer = $3",
        "at = now()",
        "id = (SELECT 1)",
    ],
)
def test_other_conditions_are_refused(where):
    with pytest.raises(NotSupported, match="not supported yet: "):
        bound(f"SELECT id FROM orders WHERE {where}", (b"1", None))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM orders",
        "SELECT DISTINCT id FROM orders",
        "SELECT id FROM orders ORDER BY id",
        "SELECT id FROM orders LIMIT 1",
        "SELECT a.id FROM orders a JOIN orders b ON a.id = b.id",
        "SELECT id FROM orders, orders b",
        "WITH x AS (SELECT 1) SELECT id FROM orders",
        "SELECT id FROM orders UNION SELECT 1",
        "SELECT id FROM (SELECT * FROM orders) o",
        "SELECT id FROM orders TABLESAMPLE BERNOULLI (5)",
        "SELECT id FROM orders GROUP BY id",
        "SELECT 1",
        "SELECT xmin FROM orders",
    ],
)
def test_other_queries_are_refused(sql):
    with pytest.raises(NotSupported, match="not supported yet: "):
        bound(sql)


def test_the_key_is_certain_only_if_all_of_it_is_in_the_output():
    assert bound("SELECT status, id FROM orders").key_positions == (1,)
    assert bound("SELECT * FROM orders AS o").key_positions == (0,)
    assert bound("SELECT status FROM orders").key_positions == ()


def test_a_text_that_this_client_would_see_otherwise_is_refused():
    assert bound("SELECT at FROM orders").outputs == (4,)
    with pytest.raises(NotSupported, match="TimeZone Europe/Berlin"):
        bound("SELECT at FROM orders", zone="Europe/Berlin")


def test_a_filter_names_columns_of_the_result():
    made = bound("SELECT id, status AS state FROM orders WHERE id = 1", filter_sql="state = 'open'")
    assert made.predicate == Junction("and", Comparison(0, "=", 1), Comparison(2, "=", "open"))
    with pytest.raises(NotSupported, match="status"):
        bound("SELECT id, status AS state FROM orders", filter_sql="status = 'open'")
