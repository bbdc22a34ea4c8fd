"""`python -m services.recompute explain`."""

import pytest

from services.recompute import explain


@pytest.fixture
def explained(shop: str, capsys: pytest.CaptureFixture[str]):
    def of(*argv: str) -> tuple[int, str]:
        code = explain.main([*argv, "--dsn", shop])
        return code, capsys.readouterr().out

    return of


def test_a_query_is_explained_with_its_tables_its_strategy_and_what_spark_runs(explained):
    code, text = explained("SELECT id, name FROM item WHERE id > $1", "--param", "5")
    assert code == 0
    for words in ("public.item", "reads id name", "parameter $1    int4", "strategy        row-local", "Spark SQL"):
        assert words in text


def test_why_no_cheaper_strategy_is_said_for_each(explained):
    _, text = explained("SELECT stock(), random()", "--role", "clerk")
    assert "not row-local:" in text and "not full:" in text and "PostgreSQL runs it, as clerk" in text


def test_what_is_refused_says_why(explained):
    assert explained("DELETE FROM item") == (
        1,
        "refused: Only SELECT queries can be subscribed to (SQLSTATE 0A000)\n",
    )


def test_policies_are_shown(explained):
    _, text = explained("SELECT id FROM note", "--role", "auditor")
    assert "where ((true) OR ((owner = 'auditor'::name)))" in text
