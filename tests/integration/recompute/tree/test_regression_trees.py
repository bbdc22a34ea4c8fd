"""Every tree of PostgreSQL's own regression files is read without loss: it prints back as it was."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from services.devstack.postgres import wheel_bin
from services.recompute.core.tree.reading import read_tree
from services.recompute.core.tree.text import read, written
from tests.clients.regression import SESSION, regression_files
from tests.fixtures.postgres import start_postgres
from tests.integration.recompute.tree.conftest import VERSIONS

# SELECTs of every kind; the first file makes the tables of the others. `make oracle` reads more of them.
FILES = (
    *("test_setup", "case", "select", "select_having", "subselect", "union", "join", "groupingsets", "window", "with"),
    *("rowtypes", "domain", "collate", "rowsecurity"),
)
ALL_FILES = (
    *(
        "test_setup",
        "boolean",
        "char",
        "varchar",
        "text",
        "int2",
        "int4",
        "int8",
        "float4",
        "float8",
        "numeric",
        "uuid",
    ),
    *("strings", "date", "time", "timestamp", "timestamptz", "interval", "arrays", "jsonb", "rangetypes", "case"),
    *("select", "select_distinct", "select_having", "subselect", "union", "join", "aggregates", "groupingsets"),
    *("window", "with", "limit", "rowtypes", "domain", "enum", "collate", "create_view", "rowsecurity", "xml", "json"),
)
_TREE = re.compile(r"LOG:  rewritten parse tree:\n[^\n]*DETAIL:  (.*(?:\n\t.*)*)")


def trees(log: str) -> list[str]:
    """The trees in a server's log, whose further lines begin with a tab; PostgreSQL breaks lines at blanks."""
    return [found[1].replace("\n\t", " ").strip() for found in _TREE.finditer(log)]


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.parametrize("version", VERSIONS)
def test_a_tree_prints_back_as_it_was(version: int, tmp_path: Path):
    files = regression_files()
    folder = tmp_path / "postgres"
    with start_postgres(folder, version) as server:
        for name in ALL_FILES if "ORACLE_EXAMPLES" in os.environ else FILES:
            _run(server.dsn_of("postgres"), files, name, tmp_path)
        log = (folder / "postgres.log").read_text(errors="replace")
    found = [tree for tree in trees(log) if tree.startswith("({QUERY :commandType 1 ")]
    lost = [tree for tree in found if written(read(tree)) != tree]
    assert lost[:3] == []
    kinds = {type(read_tree(tree)).__name__ for tree in found}
    assert (kinds, len(found) > 1_500) == ({"Query"}, True), (kinds, len(found))


def _run(dsn: str, files: Path, name: str, folder: Path) -> None:
    (folder / "results").mkdir(exist_ok=True)
    telling = "-c debug_print_rewritten=on -c debug_pretty_print=off -c client_min_messages=error"
    environ = {
        **SESSION,
        "PGOPTIONS": f"{SESSION['PGOPTIONS']} {telling}",
        "PG_ABS_SRCDIR": str(files),
        "PG_ABS_BUILDDIR": str(folder),
        "PG_LIBDIR": str(files),
        "PG_DLSUFFIX": ".so",
    }
    with (files / "sql" / f"{name}.sql").open() as script:
        subprocess.run(
            [str(wheel_bin(18) / "psql"), "-X", "-q", dsn],
            cwd=folder,
            env=environ,
            stdin=script,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
