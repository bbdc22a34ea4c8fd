"""The project's habits hold together: the hooks are those of `make lint`, each folder of tests is described."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def recipe(target: str) -> list[str]:
    text = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    return [line.strip().lstrip("@").replace("$(PY)", ".venv/bin/python") for line in text.splitlines()]


def test_the_hooks_before_a_commit_are_the_commands_of_make_lint():
    [repository] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == recipe("lint")
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}


def test_make_test_prints_its_slowest_tests():
    assert "--durations=25" in recipe("test")[0]


def test_each_folder_of_tests_is_described():
    words = (ROOT / "tests" / "README.md").read_text()
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert {folder for folder in folders if f"`{folder}/`" not in words} == set()


def test_each_document_is_on_the_map():
    words = (ROOT / "docs" / "README.md").read_text()
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    assert {page for page in pages if f"({page})" not in words} == set()


def test_the_licence_is_the_one_that_the_package_names():
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
