"""Each service has the same rooms, and nothing stands outside of them but the fixed five modules."""

from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services"
# What each process is made of; shared parts and tools of developers are no services.
NO_SERVICES = {"chassis", "changelog", "cli", "devstack", "sqlguard"}
FIXED_FIVE = {"__init__.py", "__main__.py", "settings.py", "metrics.py", "errors.py"}
ROOMS = {"inbound", "flow", "core", "outbound", "tools"}
# Files that are no Python: statements that a service runs.
DATA = {"sql"}


def services() -> list[Path]:
    return sorted(path for path in SERVICES.iterdir() if path.is_dir() and (path / "__main__.py").exists())


@pytest.mark.parametrize(
    "service", [one for one in services() if one.name not in NO_SERVICES], ids=lambda one: one.name
)
def test_no_module_stands_outside_of_a_room(service: Path):
    modules = {path.name for path in service.glob("*.py")}
    folders = {path.name for path in service.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert modules <= FIXED_FIVE
    assert folders - DATA <= ROOMS
    assert [path for name in DATA for path in (service / name).rglob("*.py") if path.name != "__init__.py"] == []
