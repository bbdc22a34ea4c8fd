"""An object's state is changed by its own methods: nobody else assigns to its attributes."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services"
FLOWS = sorted(path for flow in SERVICES.glob("recompute/flow") for path in flow.rglob("*.py"))


def assigned(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        for target in targets:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]


def changes_another_object(target: ast.expr) -> bool:
    """`one.attribute = …`, `one.attribute[key] = …` or `self.one.attribute = …`, but not `self.attribute = …`."""
    attributes = 0
    while isinstance(target, ast.Attribute | ast.Subscript):
        attributes += isinstance(target, ast.Attribute)
        target = target.value
    is_own = isinstance(target, ast.Name) and target.id == "self"
    return attributes > (1 if is_own else 0)


@pytest.mark.parametrize("path", FLOWS, ids=lambda path: str(path.relative_to(SERVICES)))
def test_state_is_changed_by_methods_of_its_owner(path: Path):
    tree = ast.parse(path.read_text())
    found = [f"{target.lineno}: {ast.unparse(target)}" for target in assigned(tree) if changes_another_object(target)]
    assert found == []
