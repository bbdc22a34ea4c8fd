"""The one statement in a text, as PostgreSQL cuts it."""

import pytest

from services.sqlguard.refusal import ONLY_SELECT, Refused
from services.sqlguard.statement import MULTIPLE, only_statement


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("SELECT 1", "SELECT 1"),
        ("SELECT 1;", "SELECT 1"),
        ("SELECT 1 ;; -- done;\n /* ; /* ; */ */ ", "SELECT 1 "),
        ("SELECT ';', E'\\';', \";\", $a$;$a$, $$;$$", None),
        ("SELECT a$b$c, 1 -- ;", None),
        ("(TABLE t) UNION VALUES (1)", None),
    ],
)
def test_what_ends_it_is_left_out_and_what_is_quoted_is_no_end(sql, statement):
    assert only_statement(sql) == (statement or sql)


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "SELECT 1;;x", "SELECT $a$;$b$;$a$; SELECT 2"])
def test_two_are_refused(sql):
    with pytest.raises(Refused, match=MULTIPLE):
        only_statement(sql)


@pytest.mark.parametrize("sql", ["", " -- no", ";", "DROP TABLE t", "/* x */ explain SELECT 1", "VACUUM @@@ t"])
def test_commands_and_nothing_at_all_are_no_queries(sql):
    with pytest.raises(Refused, match=ONLY_SELECT):
        only_statement(sql)


def test_long_texts_take_linear_time():
    for text in (
        "SELECT " + "(" * 60_000,
        "SELECT '" + "''" * 60_000,
        "SELECT /*" * 20_000,
        "SELECT " + "$a$" * 30_001,
    ):
        assert only_statement(text) == text
