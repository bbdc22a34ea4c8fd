"""The golden vectors of the binary door, and how a test claims some of them.

A claim is the literal `of_kind("…")`: test_claims.py reads the sources, so that no kind goes without a test.
"""

import json
from pathlib import Path

import pytest

import proto

VECTORS = json.loads((Path(proto.__file__).parent / "golden" / "vibesql.json").read_text())["vectors"]


def of_kind(*kinds, where=lambda vector: True):
    """Run a test once for each vector of these kinds."""
    chosen = [vector for vector in VECTORS if vector["kind"] in kinds and where(vector)]
    assert chosen, kinds
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector["id"])
