"""What goes wrong with operators stays with the templates and tables that it concerns, and leaves nothing behind."""

import threading
from types import SimpleNamespace

import pytest
import structlog
from prometheus_client import CollectorRegistry

from proto.positions import Lsn
from proto.tidewire.v1.queries_pb2 import Query
from services.recompute.core.catalog import Column, PgType, Table
from services.recompute.core.live_query import LiveQuery, LiveTemplate
from services.recompute.core.plan import Full, OutputColumn, Plan, Read, Strategy
from services.recompute.core.result import Position
from services.recompute.core.row_changes import NOTHING, Changes
from services.recompute.flow import incremental_lane
from services.recompute.flow.failures import Failures
from services.recompute.flow.incremental_lane import IncrementalLane
from services.recompute.flow.own_barriers import OwnBarriers
from services.recompute.flow.publisher import Publisher
from services.recompute.metrics import Metrics
from services.recompute.outbound.spark.incremental import LostTable, Moved, Refused
from services.recompute.outbound.underway import UnderWay

INT4 = PgType(23, "int4")
ONE, TWO = 101, 102
CHANGED = Changes([(b"1",)], [((b"1",), 1)])


class Engine:
    """The JVM's side: what it was asked for, and what it holds by that."""

    def __init__(self):
        self.planned, self.tables, self.ticks = set(), set(), []
        self.built, self.told, self.error, self.answers = set(), set(), None, []
        self.may_work = threading.Event()
        self.may_work.set()
        self.is_loading = threading.Event()
        self.table_bytes, self.is_silent = 100, False

    def plan(self, number, job, tables):
        self.may_work.wait(10)
        self.planned.add(number)
        return []

    def load(self, table, frame, most_bytes):
        self.is_loading.set()
        self.may_work.wait(10)
        self.tables.add(table.oid)

    def pin(self, number):
        assert number in self.planned

    def build(self, number):
        self.built.add(number)

    def drop(self, number):
        self.planned.discard(number)

    def forget(self, oid):
        self.tables.discard(oid)

    def bytes(self):
        return len(self.tables) * self.table_bytes

    def tick(self, changes, tuples):
        self.ticks.append(dict(changes))
        if self.error is not None:
            raise self.error
        for number in sorted(set() if self.is_silent else (self.built & self.planned) - self.told):
            self.told.add(number)
            yield Moved(number, True, [(0, 1, None, [b"7"])])
        answers, self.answers = self.answers, []
        yield from answers


class Tables:
    """The tables as they stand, with what changed in this turn."""

    def __init__(self):
        self.unready, self.changed, self.count = set(), {}, 10

    def is_ready(self, oid):
        return oid not in self.unready

    def table(self, oid):
        return Table(oid=oid, schema="public", name=f"t{oid}", columns=(Column("id", INT4),), key=(0,))

    def frame(self, oid):
        return None

    def rows(self, oid):
        return self.count

    def identity(self, oid):
        return oid, 1

    def changes(self, oid):
        return self.changed.get(oid, NOTHING)


class World:
    def __init__(self, folder):
        self.engine, self.tables, self.now_s = Engine(), Tables(), 100.0
        self.log = SimpleNamespace(position=Position(Lsn(200), 2), history=1, barriers={})
        self.records, self.is_broken, metrics = [], False, Metrics(CollectorRegistry())
        failures = Failures(metrics, structlog.get_logger())
        barriers = OwnBarriers(lambda: "own", structlog.get_logger())
        publisher = Publisher(self, self.log, metrics, failures, own_barriers=barriers, barrier_wait_s=1.0)
        self.under_way = UnderWay(folder, quarantine_s=600.0)
        self.lane = IncrementalLane(
            self.engine,
            self.tables,
            self.log,
            publisher,
            metrics,
            structlog.get_logger(),
            under_way=self.under_way,
            failures=failures,
            memory_mb=1,
            max_rows=1000,
            clock=lambda: self.now_s,
        )
        self.templates = {}

    def append(self, deltas):
        self.records += list(deltas)
        return len(self.records)

    def template(self, name, oid):
        """A template of one query, which has its result from a whole evaluation."""
        query = Query(query_id=b"query of " + name, template_id=name)
        template = self.templates[name] = LiveTemplate(name, query)
        plan = Plan(
            strategy=Strategy.FULL,
            why_not={},
            columns=(OutputColumn("id", INT4),),
            reads=(Read(oid, frozenset()),),
            live=Full("SELECT", by_tuple=False),
        )
        template.set_plan(plan, {})
        live = LiveQuery(0, query, template, None)
        live.set_values(())
        template.add(live)
        live.new_result(1)
        return template

    def turn(self, **changed):
        """One turn of the loop; what is beside it is done behind it."""
        self.tables.changed = {int(oid[1:]): one for oid, one in changed.items()}
        failed = self.lane.turn(self.templates)
        self.tables.changed = {}
        self.lane.advance(self.templates.values())
        if self.engine.may_work.is_set():
            self.beside()
        return failed

    def until_planned(self):
        """Its plan is made, and nothing else is done beside the loop from now on."""
        self.engine.may_work.clear()
        self.turn()
        self.engine.may_work.set()
        self.beside()
        self.engine.may_work.clear()

    def work_again(self):
        self.engine.may_work.set()
        self.beside()

    def beside(self):
        self.lane._pool.submit(int).result(10)

    def live(self):
        for _ in range(6):
            self.turn()
        assert all(self.lane.keeps(one) for one in self.templates.values())


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.engine.may_work.set()
    world.lane.close()


def test_a_table_that_is_being_loaded_again_is_not_held(world):
    world.template(b"a", ONE)
    world.until_planned()
    world.tables.unready.add(ONE)
    world.engine.may_work.set()
    for _ in range(3):
        world.turn()
    assert not world.engine.tables
    world.tables.unready.clear()
    world.live()


def test_a_tick_that_fails_ends_no_loop_and_leaves_nothing_held(world):
    world.template(b"a", ONE)
    world.template(b"b", TWO)
    world.live()
    world.engine.error = Refused("broken")
    assert world.turn(t101=CHANGED) == []
    assert not world.engine.tables and not world.engine.planned
    assert all(one.is_waiting and not world.lane.keeps(one) for one in world.templates.values())
    world.engine.error = None
    world.now_s += 31
    world.live()


def test_a_table_that_is_lost_takes_its_own_templates_alone(world):
    one, other = world.template(b"a", ONE), world.template(b"b", TWO)
    world.live()
    world.engine.answers = [LostTable(ONE, "a row went that is not in the table")]
    world.turn(t101=CHANGED)
    assert not world.lane.keeps(one) and world.lane.keeps(other)
    assert world.engine.tables == {TWO}


def test_an_error_in_taking_rows_is_the_templates_alone(world):
    one, other = world.template(b"a", ONE), world.template(b"b", TWO)
    world.live()
    world.engine.answers = [Moved(0, False, [(0, 1, None, None)]), Moved(1, False, [(0, 1, None, [b"8"])])]
    world.turn(t101=CHANGED)
    assert not world.lane.keeps(one) and one.is_waiting
    (live,) = other.members.values()
    assert world.lane.keeps(other) and live.result.rows == {(b"7",): 1, (b"8",): 1}


def test_one_template_gives_way_to_the_limit_and_its_table_goes_with_it(world):
    one, other = world.template(b"a", ONE), world.template(b"b", TWO)
    world.live()
    world.engine.table_bytes = 700 << 10
    for _ in range(5):
        world.now_s += 1.5
        world.turn()
    assert world.lane.keeps(one) and not world.lane.keeps(other)
    assert world.engine.tables == {ONE}


def test_a_table_that_cannot_fit_is_not_loaded(world):
    world.tables.count = 1_000_000
    world.template(b"a", ONE)
    for _ in range(4):
        world.turn()
    assert not world.engine.tables and not world.engine.planned


def test_a_plan_that_is_not_wanted_any_more_is_dropped_behind_its_making(world):
    world.engine.may_work.clear()
    world.template(b"a", ONE)
    world.turn()
    world.templates.clear()
    world.turn()
    world.work_again()
    assert not world.engine.planned


def test_a_load_that_is_not_wanted_any_more_is_forgotten_behind_it(world):
    world.template(b"a", ONE)
    world.until_planned()
    world.turn()
    assert world.engine.is_loading.wait(10)
    world.tables.unready.add(ONE)
    world.turn()
    world.work_again()
    assert not world.engine.tables


def test_what_changes_during_a_load_is_kept_within_reason(world, monkeypatch):
    monkeypatch.setattr(incremental_lane, "MOST_MISSED_ROWS", 3)
    template = world.template(b"a", ONE)
    world.until_planned()
    world.turn()
    world.turn(t101=CHANGED)
    world.turn(t101=CHANGED)
    world.work_again()
    for _ in range(4):
        world.turn()
    assert not world.lane.keeps(template) and not world.engine.tables


def test_first_rows_that_come_while_another_load_is_made_up_for_are_told(world):
    one = world.template(b"a", ONE)
    world.engine.is_silent = True
    for _ in range(5):
        world.turn()
    assert world.engine.built == {0}
    world.template(b"b", TWO)
    world.until_planned()
    world.turn()
    world.turn(t102=CHANGED)
    world.engine.is_silent = False
    world.work_again()
    world.live()
    (live,) = one.members.values()
    assert live.result.rows == {(b"7",): 1}


def test_what_operators_are_at_is_noted_and_a_barred_template_is_left_alone(world, tmp_path):
    world.engine.may_work.clear()
    world.template(b"a", ONE)
    world.turn()
    again = World(tmp_path)
    again.template(b"a", ONE)
    for _ in range(4):
        again.turn()
    assert not again.engine.planned
    again.lane.close()
