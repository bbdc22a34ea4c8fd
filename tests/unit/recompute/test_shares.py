"""A login has one share of recompute, whatever roles it sets."""

import threading
import time
from contextlib import nullcontext

import pytest
import structlog
from prometheus_client import CollectorRegistry

from proto.tidewire.v1.queries_pb2 import Query
from services.recompute.core.live_query import LiveTemplate
from services.recompute.flow.failures import Failures
from services.recompute.flow.planner import Planner
from services.recompute.flow.slow_lane import LaneTurns
from services.recompute.metrics import Metrics
from services.sqlguard.refusal import Refused

WITHIN_S = 10.0


def template(number, login, role):
    return LiveTemplate(bytes([number]), Query(login=login, role=role))


class Catalog:
    """Says no to everybody, to one login only when the gate opens."""

    def __init__(self, login):
        self._login, self.gate = login, threading.Event()

    def describe(self, query):
        if query.login == self._login:
            self.gate.wait(WITHIN_S * 3)
        raise Refused("42501", "no")


@pytest.fixture
def catalog():
    made = Catalog("many")
    yield made
    made.gate.set()


def test_a_login_gets_no_more_planning_threads_by_setting_other_roles(catalog):
    failures = Failures(Metrics(CollectorRegistry()), structlog.get_logger())
    planner = Planner(lambda: nullcontext(catalog), lambda: "barrier", failures)
    for number in range(9):
        planner.ask(template(number, "many", f"role{number}"))
    planner.ask(template(100, "modest", "role1"))
    planned, deadline_s = [], time.monotonic() + WITHIN_S
    while not planned and time.monotonic() < deadline_s:
        planned = list(planner.done({"barrier": 1}))
        time.sleep(0.01)
    planner.close()
    assert [one.template_id for one in planned] == [bytes([100])]


def test_a_login_gets_no_more_turns_in_the_slow_lane_by_setting_other_roles():
    turns, alone = LaneTurns(), [template(number, "many", f"role{number}") for number in range(3)]
    alone.append(template(100, "modest", "role1"))
    for one in alone:
        one.lane.is_alone = True
    assert [turns.chosen(alone)[0].query.login for _ in range(4)] == ["many", "modest", "many", "modest"]
