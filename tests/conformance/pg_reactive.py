"""The golden vectors of the NOTIFY door."""

import json
from pathlib import Path

import pytest

import proto

NOTIFY_VECTORS = json.loads((Path(proto.__file__).parent / "golden" / "pg_reactive.json").read_text())["vectors"]


def vector_of(name):
    """The vector of this id."""
    return next(vector for vector in NOTIFY_VECTORS if vector["id"] == name)


def of_kind(*kinds):
    """Run a test once for each vector of these kinds."""
    chosen = [vector for vector in NOTIFY_VECTORS if vector["kind"] in kinds]
    assert chosen, kinds
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector["id"])
