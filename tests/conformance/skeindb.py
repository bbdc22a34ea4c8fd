"""The golden vectors of the CDC door, and how a test claims some of them: by the literal `of_cdc("…")`."""

import json
from pathlib import Path

import pytest

import proto

CDC_VECTORS = json.loads((Path(proto.__file__).parent / "golden" / "skeindb.json").read_text())["vectors"]


def of_cdc(*prefixes):
    """Run a test once for each vector whose id begins with one of these."""
    chosen = [vector for vector in CDC_VECTORS if vector["id"].startswith(prefixes)]
    assert chosen, prefixes
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector["id"])


def vector(vector_id):
    [found] = [each for each in CDC_VECTORS if each["id"] == vector_id]
    return found
