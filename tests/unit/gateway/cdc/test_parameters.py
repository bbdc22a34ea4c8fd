"""A parameter that a method does not take is refused: a filter with a typo would filter nothing."""

import json
from pathlib import Path

import pytest

from services.gateway.core.cdc.parameters import PARAMETERS, refuse_unknown
from services.gateway.errors import RpcRefused

GOLDEN = Path(__file__).parents[4] / "proto/golden/skeindb.json"


@pytest.mark.parametrize("method", PARAMETERS)
def test_what_a_method_does_not_take_is_refused_by_name(method):
    with pytest.raises(RpcRefused, match="unknown parameter 'filters'") as refused:
        refuse_unknown(method, {"filters": {"ops": ["delete"]}})
    assert (refused.value.code, refused.value.details) == ("invalid_request", {"field": "filters"})


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [("include", {"afters": True}, "include.afters"), ("pk_range", {"lower": 1}, "pk_range.lower")],
)
def test_so_is_a_part_of_one(name, value, field):
    with pytest.raises(RpcRefused, match=f"unknown parameter '{field}'"):
        refuse_unknown("cdc.subscribe_table", {"db": "app", "table": "t", name: value})


def test_a_long_name_is_not_sent_back_whole():
    with pytest.raises(RpcRefused) as refused:
        refuse_unknown("system.ping", {"x" * 100_000: 1})
    assert len(refused.value.message) < 200


def test_what_the_requirements_and_the_vectors_name_is_taken():
    """S4, S5, S19, and the calls of the original."""
    wishes = {"pk": [], "pk_range": {"lower_bound": 1, "upper_bound": 2}, "format": "plain_json"}
    wishes |= {"include": {"before": True, "after": True, "changed_keys": True}, "ops": [], "columns": []}
    refuse_unknown("cdc.subscribe_table", {"db": "app", "table": "t", **wishes})
    refuse_unknown("cdc.subscribe_query", {"query_id": "q", "args": [], **wishes})
    refuse_unknown("cdc.poll", {"sub_id": "s", "from_offset": 0, "limit": 1, "wait_ms": 1})
    requests = [vector["request"] for vector in json.loads(GOLDEN.read_text())["vectors"] if "request" in vector]
    known = [request for request in requests if request.get("method") in PARAMETERS]
    assert len(known) > 5
    for request in known:
        refuse_unknown(request["method"], request.get("params", {}))
