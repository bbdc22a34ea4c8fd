"""What a client may subscribe to, as far as the text of it tells."""

import pytest

from services.gateway.core.identity import Identity
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


def test_a_setting_is_known_only_if_postgres_reports_it():
    old = {"server_version": "15.4 (Debian)", "search_path": "a", "timezone": "CET", "app.tenant": "5"}
    some, new = Identity("c", "r", "d", old), Identity("c", "r", "d", {**old, "server_version": "18.1"})
    asked = ("timezone", "app.tenant", "search_path", "datestyle")
    assert [some.reported(name) for name in asked] == ["CET", None, None, None]
    assert [new.reported(name) for name in asked] == ["CET", None, "a", None]
