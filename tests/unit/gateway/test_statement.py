"""What a client may subscribe to, as far as the text of it tells."""

import pytest

from services.gateway.core.principal import Principal
from services.gateway.core.statement import bare, refuse_unless_condition, relation_names
from services.gateway.errors import SubscribeRefused


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ('SELECT * FROM Orders o, Shop."Odd Name"', {("", "orders"), ("shop", "Odd Name")}),
        ("SELECT * FROM a WHERE x IN (SELECT y FROM b) UNION TABLE c", {("", "a"), ("", "b"), ("", "c")}),
        ("WITH w AS (SELECT * FROM d) SELECT * FROM w", {("", "d"), ("", "w")}),
        ("SELECT * FROM generate_series(1, 5) AS g", set()),
        ("SELECT * FROM ÉTÉ", {("", "ÉtÉ")}),
        ("SELECT a @@@ FROM", set()),
    ],
)
def test_names_of_relations_are_folded_as_postgres_folds_them(sql, names):
    assert relation_names(sql) == names


def test_a_text_that_the_parser_would_read_for_ever_is_not_read():
    deep = "date(" * 40 + "now()" + ")" * 40
    assert relation_names(f"SELECT {deep} FROM a") == set()
    with pytest.raises(SubscribeRefused, match="Filter parse error: names of types with brackets"):
        refuse_unless_condition(f"{deep} = now()")


def test_the_last_semicolon_is_no_part_of_a_query():
    assert bare(" SELECT 1 ; ") == "SELECT 1"


def test_a_setting_is_known_only_if_it_is_certain():
    settings = {"search_path": "a", "timezone": "CET", "app.tenant": "5"}
    client = Principal("c", "r", "d", settings, frozenset({"timezone", "app.tenant"}))
    assert [client.known(name) for name in ("timezone", "app.tenant", "search_path", "datestyle")] == [
        "CET",
        "5",
        None,
        None,
    ]
