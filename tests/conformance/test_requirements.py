"""Every requirement of the binary door and every kind of golden vector is named by a test.

A number counts where a function of the tests has it in its name (`test_v12_…`) or, by itself, in its docstring. Ranges
count for nothing: V1–V62 would be said quickly.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.conformance.vectors import VECTORS

TESTS = Path(__file__).parents[1]
# fmt: off
REQUIREMENTS = (
    "V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8", "V9", "V10", "V11", "V12", "V13", "V14", "V15", "V16", "V17",
    "V18", "V19", "V20", "V21", "V22", "V23", "V24", "V25", "V26", "V27", "V28", "V29", "V30", "V31", "V32", "V33",
    "V34", "V35", "V36", "V37", "V38", "V39", "V40", "V41", "V42", "V43", "V44", "V45", "V46", "V47", "V48", "V49",
    "V50", "V51", "V52", "V53", "V54", "V55", "V56", "V57", "V58", "V59", "V60", "V61", "V62",
)
# fmt: on
_RANGE = re.compile(r"V\d+\s*[–-]\s*V?\d+")
_NUMBER = re.compile(r"\bV\d+\b")
_IN_NAME = re.compile(r"(?<=_)v\d+(?=_)")


def sources():
    for path in sorted(TESTS.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def functions(tree):
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def numbers_of(function):
    words = _RANGE.sub("", ast.get_docstring(function) or "")
    return {*_NUMBER.findall(words), *(name.upper() for name in _IN_NAME.findall(f"{function.name}_"))}


@pytest.fixture(scope="module")
def named():
    """Each number with the functions that name it."""
    found: dict[str, list[str]] = {}
    for path, tree in sources():
        for function in functions(tree):
            for number in numbers_of(function):
                found.setdefault(number, []).append(f"{path.relative_to(TESTS)}::{function.name}")
    return found


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_a_requirement_is_named_by_a_test(named, requirement):
    assert named.get(requirement), f"no test names {requirement}"


def test_every_kind_of_vector_is_claimed_by_a_test():
    """A claim is the literal `of_kind("…")` over a test function."""
    claimed = {
        argument.value
        for _, tree in sources()
        for function in functions(tree)
        if function.name.startswith("test_")
        for call in function.decorator_list
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "of_kind"
        for argument in call.args
    }
    assert {vector["kind"] for vector in VECTORS} - claimed == set()


def test_ranges_name_nothing():
    (function,) = functions(ast.parse("def test_v3_x_v5():\n    'V7, V8–V11, V12-14, decision 15'"))
    assert numbers_of(function) == {"V3", "V5", "V7"}
