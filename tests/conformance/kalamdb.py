"""The golden vectors of the topics door, and how a test claims some of them: by the literal `of_topics("…")`."""

import json
from pathlib import Path

import pytest

import proto

TOPIC_VECTORS = json.loads((Path(proto.__file__).parent / "golden" / "kalamdb.json").read_text())["vectors"]


def of_topics(*vector_ids):
    """Run a test once for each of these vectors."""
    return pytest.mark.parametrize("vector", [topic_vector(each) for each in vector_ids], ids=vector_ids)


def topic_vector(vector_id):
    [found] = [each for each in TOPIC_VECTORS if each["id"] == vector_id]
    return found
