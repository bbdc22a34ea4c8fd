"""The behaviours and filters of the golden vectors, played on the whole stack."""

from collections import Counter

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from services.gateway.core.encoders.binary import BatchStatistics, RowShape
from services.gateway.core.encoders.partial_rows import RowDecision
from services.gateway.metrics import PartialRows
from tests.conformance.filtered import answer, relation_of
from tests.conformance.stack.sandbox import Subscribed
from tests.conformance.stack.scenarios import scenario_of
from tests.conformance.vectors import VECTORS, of_kind


def is_figure(vector):
    """Nothing but arithmetic: no stack is needed for it."""
    return "record" in vector


def test_every_behaviour_is_played():
    behaviours = [vector for vector in VECTORS if vector["kind"] == "behaviour" and not is_figure(vector)]
    assert [vector["id"] for vector in behaviours if scenario_of(vector) is None] == []


@of_kind("behaviour", where=lambda vector: not is_figure(vector))
def test_a_behaviour(sandbox, vector):
    scenario_of(vector)(sandbox, vector)


@of_kind("behaviour", where=is_figure)
def test_v60_the_efficiency_of_partial_rows(vector):
    sent, columns = vector["record"]
    registry = CollectorRegistry()
    row = RowShape(changed=max(0, sent - 1), sent=sent, columns=columns)
    PartialRows(registry).count(BatchStatistics(("selective",), Counter({(RowDecision.PARTIAL, row): 1})), 1)
    page = dict(line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines() if line[0] != "#")
    assert float(page["vibesql_partial_update_efficiency"]) == pytest.approx(vector["expect_efficiency"])


@of_kind("filter_eval")
def test_v13_a_filter_on_the_road_keeps_what_postgres_keeps(sandbox, direct, vector):
    relation = relation_of(direct, vector)
    table = sandbox.table_of(f"SELECT * FROM {relation}")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}", filter=vector["filter"])
        assert bool(held.rows) == answer(direct, relation, vector["filter"])
        sandbox.write(f"DELETE FROM {table}")
        held.until([])
