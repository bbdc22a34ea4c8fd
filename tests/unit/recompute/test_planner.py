"""The planner: what goes wrong in it ends nobody, and who asks often keeps no plan from counting."""

from collections.abc import Callable
from concurrent.futures import wait
from contextlib import nullcontext

import psycopg
import pytest
import structlog
from prometheus_client import CollectorRegistry

from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import PostgresRefused
from services.recompute.core.catalog import Column, Described, PgType, Table
from services.recompute.core.live_query import Failure, LiveTemplate
from services.recompute.core.plan import Strategy
from services.recompute.flow.failures import Failures
from services.recompute.flow.planner import MOST_ZONES, OUTAGE_WAIT_S, REPLAN_S, Planner
from services.recompute.metrics import Metrics
from services.sqlguard.refusal import Refused

PASSED = {"barrier": 1}


class Catalog:
    """PostgreSQL, as far as the planner asks it: says what it is told to, and how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.says: Callable[[], None] = lambda: None

    def describe(self, query: Query) -> None:
        self.asked += 1
        self.says()
        raise Refused("42P01", f"number {self.asked}")

    def rights(self) -> str:
        self.says()
        return ""

    def zone_offsets(self, name: str) -> list[int]:
        return []


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def catalog():
    return Catalog()


@pytest.fixture
def barriers():
    """What emitting a barrier does, in turn; then it works."""
    return []


@pytest.fixture
def metrics():
    return CollectorRegistry()


@pytest.fixture
def planner(catalog, clock, barriers, metrics):
    def emit():
        if barriers:
            raise barriers.pop(0)
        return "barrier"

    failures = Failures(Metrics(metrics), structlog.get_logger())
    made = Planner(lambda: nullcontext(catalog), emit, failures, clock)
    yield made
    made.close()


@pytest.fixture
def template():
    return LiveTemplate(b"t", Query(role="mallory"))


def described() -> Described:
    columns = (Column("id", PgType(23, "int4")),)
    table = Table(oid=1, schema="public", name="t", columns=columns, key=(0,))
    tree = (
        "({QUERY :commandType 1 :hasTargetSRFs false :hasDistinctOn false :hasRecursive false :hasRowSecurity false "
        ":cteList <> :rtable <> :jointree {FROMEXPR :fromlist <> :quals <>} :targetList <> :groupClause <> "
        ":groupingSets <> :havingQual <> :windowClause <> :distinctClause <> :sortClause <> :limitOffset <> "
        ":limitCount <> :limitOption 0 :rowMarks <> :setOperations <>})"
    )
    return Described(relations={("public", "t"): table}, parameter_types=(), columns=columns, rewritten=tree)


@pytest.mark.parametrize("broken", ["plan", "row_local"], ids=["outside", "within one strategy"])
def test_a_programming_error_while_planning_is_counted_and_logged_with_its_query(
    planner, catalog, metrics, monkeypatch, broken
):
    def stumble(*_):
        raise TypeError("nobody thought of it")

    module = "flow.planner" if broken == "plan" else "core.planning"
    monkeypatch.setattr(f"services.recompute.{module}.{broken}", stumble)
    catalog.describe = lambda query: described()
    with structlog.testing.capture_logs() as logged:
        planner.ask(LiveTemplate(b"t", Query(role="mallory", template_sql="SELECT id FROM t")))
        ended(planner)
    (planned,) = planner.done(PASSED)
    assert planned.outcome.strategy is Strategy.SOURCE
    assert metrics.get_sample_value("tidewire_recompute_planning_errors_total") == 1
    assert [(line["query"], "TypeError" in line["reason"]) for line in logged] == [("SELECT id FROM t", True)]


def ended(planner):
    """Wait until no plan is being made."""
    for _, future in planner._running.values():
        wait([future], timeout=10)


def test_an_error_that_would_end_the_process_is_noted_and_the_plan_asked_for_again(planner, catalog, clock, template):
    def refuse():
        raise PostgresRefused("here", "permission denied")

    catalog.says = refuse
    planner.ask(template)
    ended(planner)
    assert list(planner.done(PASSED)) == []
    catalog.says = lambda: None
    clock.now_s += OUTAGE_WAIT_S
    assert list(planner.done(PASSED)) == []
    ended(planner)
    (planned,) = planner.done(PASSED)
    assert isinstance(planned.outcome, Failure) and planned.outcome.message == "number 2"


@pytest.mark.parametrize("error", [psycopg.OperationalError("lost"), PostgresRefused("here", "no"), ValueError("odd")])
def test_a_barrier_that_cannot_be_written_is_written_later(planner, clock, barriers, template, error):
    barriers.append(error)
    planner.ask(template)
    ended(planner)
    assert list(planner.done(PASSED)) == []
    clock.now_s += OUTAGE_WAIT_S
    assert list(planner.done(PASSED)) == []
    ended(planner)
    assert len(list(planner.done(PASSED))) == 1


def test_a_look_at_rights_that_fails_oddly_leaves_it_to_the_plans(planner, catalog):
    catalog.says = lambda: 1 / 0
    planner.look_at_rights()
    wait([planner._looking], timeout=10)
    assert planner.rights_changed()


def test_a_plan_counts_though_another_was_asked_for_meanwhile(planner, clock, template):
    counted = 0
    for _ in range(20):
        planner.ask(template)
        ended(planner)
        planner.ask(template)
        counted += len(list(planner.done(PASSED)))
        clock.now_s += REPLAN_S
    assert counted == 20


def test_a_plan_that_waits_for_its_barrier_counts_though_newer_ones_are_made(planner, clock, template):
    for _ in range(3):
        planner.ask(template)
        ended(planner)
        assert list(planner.done({})) == []
        clock.now_s += REPLAN_S
    first, newest = planner._waiting[template.id]
    assert (first.outcome.message, newest.outcome.message) == ("number 1", "number 3")
    assert list(planner.done(PASSED)) == [newest]


def test_a_template_is_planned_once_in_a_while_however_often_it_is_asked_for(planner, catalog, clock, template):
    for _ in range(100):
        planner.ask(template)
        ended(planner)
        list(planner.done(PASSED))
        clock.now_s += REPLAN_S / 50
    assert catalog.asked <= 3
    clock.now_s += REPLAN_S
    list(planner.done(PASSED))
    ended(planner)
    (last,) = planner.done(PASSED)
    assert last.began_s == clock.now_s


def test_plans_of_dropped_templates_are_not_kept(planner, template):
    planner.ask(template)
    planner.forget(template.id)
    ended(planner)
    assert list(planner.done(PASSED)) == []
    assert not (planner._running or planner._waiting or planner._later or planner._asked_s)


def test_time_zones_that_were_asked_about_are_forgotten(planner, catalog):
    for number in range(3 * MOST_ZONES):
        planner._knows(catalog, f"Odd{number}")
    assert len(planner._zones) <= MOST_ZONES
