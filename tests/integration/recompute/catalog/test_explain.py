"""`tidewire explain`."""

import subprocess
import sys
from functools import partial

import pytest
from psycopg.conninfo import make_conninfo

from services.cli.__main__ import run


@pytest.fixture
def explained_as(capsys: pytest.CaptureFixture[str]):
    """Exit code and output of `tidewire explain` with this connection string."""

    def of(dsn: str, *argv: str) -> tuple[int, str]:
        code = run(["explain", *argv, "--dsn", dsn], {})
        return code, capsys.readouterr().out

    return of


@pytest.fixture
def explained(shop: str, explained_as):
    return partial(explained_as, shop)


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


def test_the_tree_that_is_translated_is_shown(explained):
    _, text = explained("SELECT upper(name) FROM item WHERE id > 5")
    tree = text.partition("PostgreSQL's tree")[2]
    for words in ("FuncExpr funcid=871(upper)", "OpExpr opno=521(>)", "value=5", "TargetEntry"):
        assert words in tree


def explained_without(package: str, dsn: str) -> subprocess.CompletedProcess:
    """The command in a process of its own that lacks a package, and has no Java to start."""
    program = (
        f"import sys; sys.modules[{package!r}] = None; from services.cli.__main__ import run; "
        f"sys.exit(run(['explain', 'SELECT id FROM item', '--dsn', {dsn!r}], {{}}))"
    )
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PATH": ""})


def test_no_spark_is_needed(shop: str):
    done = explained_without("pyspark", shop)
    assert (done.returncode, "strategy        row-local" in done.stdout) == (0, True), done.stderr


def test_a_missing_package_is_named_with_what_brings_it():
    done = explained_without("pyarrow", "postgresql://127.0.0.1:1/none")
    said = "tidewire: pyarrow is not installed: `pip install 'tidewire[explain]'` brings it\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_an_ordinary_login_has_its_own_queries_explained(shop: str, admin, explained_as):
    """As through a gateway, with the rights of whoever asks: beside an installed Tidewire, and for a table's owner."""
    admin.execute("DROP ROLE IF EXISTS explaining")
    admin.execute("CREATE ROLE explaining LOGIN PASSWORD 'explaining'")
    try:
        own = make_conninfo(shop, user="explaining", password="explaining")
        code, text = explained_as(own, "SELECT id FROM item")
        assert (code, text) == (1, "refused: permission denied for table item (SQLSTATE 42501)\n")
        admin.execute("GRANT SELECT ON item TO explaining; GRANT CREATE ON SCHEMA public TO explaining")
        code, text = explained_as(own, "SELECT id FROM item")
        assert code == 0 and "role            explaining" in text and "strategy        row-local" in text
    finally:
        admin.execute("DROP OWNED BY explaining; DROP ROLE explaining")
