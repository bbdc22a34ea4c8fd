"""Each function that docs/walks.md names exists in the file that it names; so do the places that CONTRIBUTING names."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WALKS = (ROOT / "docs" / "walks.md").read_text()
STEPS = re.findall(r"^\| (\S+\.py) \| `([\w.]+)` \|", WALKS, re.MULTILINE)


def functions(path: Path) -> set[str]:
    """Functions of a module by name, methods with their class before it."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{method.name}" for method in methods}
    return found


def test_the_walks_have_steps():
    assert len(STEPS) > 30


@pytest.mark.parametrize(("path", "function"), STEPS, ids=lambda word: word.rpartition("/")[2])
def test_a_step_s_function_exists(path, function):
    assert function in functions(ROOT / path)


def test_the_places_on_the_way_of_a_commit_and_a_subscribe_exist():
    """CONTRIBUTING shows both ways by the names of rooms and modules alone."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    way = text[text.index("So the way of a commit") : text.index("## Test one thing")]
    places = re.findall(r"`([a-z_]+(?:/[a-z_]+)+)`", way)
    assert len(places) > 15
    services = ROOT / "services"
    assert [each for each in places if not (services / each).is_dir() and not (services / f"{each}.py").is_file()] == []
