"""What holds for every file: its size, its links, and that no test waits by sleeping."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_LINES = 400
# Tests are lists of cases.
MOST_LINES_OF_TESTS = 450
NAMED = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "tests/README.md")
DOCUMENTS = [*(ROOT / name for name in NAMED), *sorted((ROOT / "docs").rglob("*.md"))]


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def test_no_module_is_too_long_to_be_about_one_thing():
    modules = (path for path in tracked("*.py", "*.sql", "*.proto") if "_pb2" not in path.name)
    lines = {path.relative_to(ROOT): path.read_text().count("\n") for path in modules}
    limits = {path: MOST_LINES_OF_TESTS if path.parts[0] == "tests" else MOST_LINES for path in lines}
    assert {str(path): count for path, count in lines.items() if count > limits[path]} == {}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(document: Path):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text())
    local = (link for link in links if not re.match(r"[a-z]+:", link))
    assert [link for link in local if not (document.parent / link).exists()] == []


def sleeps_outside_loops(tree: ast.AST) -> list[int]:
    """Lines of calls to sleep that stand in no while loop: those do not look again, they hope.

    Not of those that sleep for a random time: there the moment of a crash is what is being varied.
    """
    inside = {id(node) for loop in ast.walk(tree) if isinstance(loop, ast.While) for node in ast.walk(loop)}
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "sleep")
        and "uniform" not in ast.unparse(node)
        and id(node) not in inside
    ]


def test_no_test_sleeps_instead_of_waiting():
    found = {
        str(path.relative_to(ROOT)): lines
        for path in tracked("tests/*.py", "tests/**/*.py")
        if (lines := sleeps_outside_loops(ast.parse(path.read_text())))
    }
    assert found == {}
