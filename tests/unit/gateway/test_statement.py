"""What a client may subscribe to, as far as the text of it tells."""

import pytest

from services.gateway.core.identity import Identity, role_of
from services.gateway.core.statement import bare, refuse_unless_select, relation_names
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


@pytest.mark.parametrize("sql", ["UPDATE t SET a = 1", "SELECT * FROM t FOR UPDATE", "VACUUM @@@ t", "SELECT 1 INTO x"])
def test_what_is_no_pure_select_is_refused(sql):
    with pytest.raises(SubscribeRefused, match="Only SELECT queries can be subscribed to"):
        refuse_unless_select(sql)


def test_the_last_semicolon_is_no_part_of_a_query():
    assert bare(" SELECT 1 ; ") == "SELECT 1"


def test_a_setting_is_known_only_if_it_is_certain():
    settings = {"search_path": "a", "timezone": "CET", "app.tenant": "5"}
    client = Identity("c", "r", "d", settings, frozenset({"timezone", "app.tenant"}))
    assert [client.known(name) for name in ("timezone", "app.tenant", "search_path", "datestyle")] == [
        "CET",
        "5",
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("settings", "role"),
    [
        ({}, "login"),
        ({"role": "none", "session_authorization": "other"}, "other"),
        ({"role": "worker", "session_authorization": "other"}, "worker"),
    ],
)
def test_the_role_that_binds_is_the_one_set_last(settings, role):
    assert role_of("login", settings) == role
