"""Marks in the log: what cannot be read ends nobody, and whom a mark concerns."""

import json

import pytest
from msgspec import structs

from proto.tidewire.v1.commands_pb2 import ResolvedName
from proto.tidewire.v1.queries_pb2 import Query
from services.recompute.core.catalog import Collation, Column, PgType, Table
from services.recompute.core.live_query import LiveTemplate
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.recent_marks import MOST, RecentMarks
from services.recompute.core.schema_marks import read_mark

ORDERS = {7: Table(oid=7, schema="public", name="orders", columns=(), key=())}


@pytest.fixture
def template():
    made = LiveTemplate(b"t", Query(names=[ResolvedName(written_name="orders", oid=7)]))
    made.plan = Plan(strategy=Strategy.SOURCE, why_not={}, columns=(), depends_on=frozenset({7}))
    return made


@pytest.mark.parametrize("garbage", [b"", b"x", b"\xff\xfe", b"[]", b'{"tag": 7}', b'{"objects": 1}', b"[" * 100_000])
def test_an_unreadable_mark_raises_nothing_and_counts_as_touching_everything(template, garbage):
    mark = read_mark(garbage)
    assert mark.is_unreadable and mark.concerns(template) and mark.may_rename(template)


def test_a_mark_of_a_relation_concerns_those_that_depend_on_it_or_write_its_name(template):
    of_it = read_mark(b'{"tag": "ALTER TABLE", "objects": [{"oid": 7, "schema": "public", "name": "renamed"}]}')
    assert of_it.concerns(template)
    of_its_name = read_mark(b'{"tag": "CREATE TABLE", "objects": [{"oid": 8, "schema": "mine", "name": "orders"}]}')
    assert not of_its_name.concerns(template) and of_its_name.may_rename(template)
    of_another = read_mark(b'{"tag": "CREATE TABLE", "objects": [{"oid": 9, "schema": "mine", "name": "other"}]}')
    assert not of_another.may_rename(template)


@pytest.mark.parametrize(
    "objects", [b"[]", b'[{"type": "TABLE"}]', b'[{"type": "function", "oid": 2077, "name": "f"}]']
)
def test_a_mark_of_taken_rights_that_does_not_say_on_what_concerns_everybody(template, objects):
    assert read_mark(b'{"tag": "REVOKE", "objects": ' + objects + b"}").concerns(template)


@pytest.mark.parametrize(
    ("objects", "concerns"),
    [
        (b'[{"type": "table", "oid": 20007, "schema": "public", "name": "orders"}]', True),
        (b'[{"type": "table", "oid": 20008, "schema": "mine", "name": "orders"}]', False),
        (b'[{"type": "schema", "oid": 20009, "schema": "public", "name": "public"}]', True),
        (b'[{"type": "schema", "oid": 20010, "schema": "mine", "name": "mine"}]', False),
    ],
)
def test_a_mark_of_taken_rights_concerns_who_reads_what_they_were_on(template, objects, concerns):
    template.plan = Plan(strategy=Strategy.SOURCE, why_not={}, columns=(), depends_on=frozenset({20007}))
    template.tables = {20007: Table(oid=20007, schema="public", name="orders", columns=(), key=())}
    template.query.search_path.extend(["of_its_own", "public"])
    revoked = read_mark(b'{"tag": "REVOKE", "objects": ' + objects + b"}")
    assert (revoked.concerns(template), revoked.may_rename(template)) == (concerns, concerns)
    assert not revoked.reloads(template, 20007)
    granted = read_mark(b'{"tag": "GRANT", "objects": ' + objects + b"}")
    assert (granted.concerns(template), granted.may_rename(template)) == (False, concerns and b'schema",' in objects)
    template.plan = None
    assert granted.concerns(template) and granted.may_rename(template)


@pytest.mark.parametrize(("kind", "is_looked_at"), [("TABLE", False), ("FUNCTION", False), ("SCHEMA", True)])
def test_more_rights_for_somebody_hold_up_no_result(template, kind, is_looked_at):
    """The right to a schema may give a name another meaning; other rights matter to those who were refused alone."""
    mark = read_mark(b'{"tag": "GRANT", "objects": [{"type": "%s"}]}' % kind.encode())
    assert (mark.concerns(template), mark.may_rename(template)) == (False, is_looked_at)
    template.plan = None
    assert mark.may_rename(template)


@pytest.mark.parametrize(
    ("sql", "strategy", "name", "oid", "concerned"),
    [
        ("SELECT lower(a) FROM orders", Strategy.FULL, "helper", 20000, False),
        ("SELECT lower(a) FROM orders", Strategy.ROW_LOCAL, "helper", 20000, False),
        ("SELECT lower(a) FROM orders", Strategy.FULL, "Lower", 20000, True),
        ("SELECT o.helper FROM orders o", Strategy.FULL, "helper", 20000, True),
        ("SELECT lower(a) FROM orders", Strategy.FULL, "float8pl", 218, True),
        ("SELECT lower(a) FROM orders", Strategy.SOURCE, "helper", 20000, False),
    ],
)
def test_a_new_function_concerns_those_that_may_call_it(template, sql, strategy, name, oid, concerned):
    template.query.template_sql = sql
    template.plan = Plan(strategy=strategy, why_not={}, columns=(), depends_on=frozenset({7}))
    described = f'{{"tag": "CREATE FUNCTION", "objects": [{{"oid": {oid}, "schema": "public", "name": "{name}"}}]}}'
    assert read_mark(described.encode()).concerns(template) == concerned


def test_a_type_whose_values_print_otherwise_touches_the_tables_that_may_have_it(template):
    mood = Column("mood", PgType(20001, "mood", -1, "e", Collation.BYTES), False, "")
    plain = Column("n", PgType(23, "int4", -1, "b", Collation.BYTES), False, "")
    tables = {oid: Table(oid=oid, schema="s", name="t", columns=(one,), key=()) for oid, one in ((7, mood), (8, plain))}
    template.tables = tables
    mark = read_mark(b'{"tag": "ALTER TYPE", "objects": [{"oid": 20002, "schema": "public", "name": "_mood"}]}')
    assert [mark.touches(template, oid) for oid in (7, 8)] == [True, False]


@pytest.mark.parametrize(
    ("command", "name", "oid", "concerns"),
    [
        ("CREATE FUNCTION", "mine", 20008, False),
        ("CREATE FUNCTION", "upper", 20008, True),
        ("DROP FUNCTION", "mine", 8, True),
        ("CREATE TYPE", "total sum", 20008, True),
        ("CREATE TYPE", "x" * 63, 20008, True),
        ("ALTER DOMAIN", "domain", 20008, False),
        ("CREATE COLLATION", "of mine", 20008, False),
        ("CREATE CAST", "mine", 20008, True),
        ("CREATE OPERATOR", "+", 20008, True),
        ("CREATE EXTENSION", "mine", 20008, True),
    ],
)
def test_a_mark_of_code_concerns_who_may_call_it(template, command, name, oid, concerns):
    template.query.sql = f"SELECT Upper(a)::\"Total Sum\" FROM orders WHERE a <> 'x'::{'X' * 70}"
    template.plan = Plan(strategy=Strategy.SOURCE, why_not={}, columns=(), depends_on=frozenset({7, 8}))
    mark = read_mark(json.dumps({"tag": command, "objects": [{"oid": oid, "schema": "own", "name": name}]}).encode())
    assert mark.concerns(template) == concerns
    template.query.sql = 'SELECT U&"\\0061" FROM orders'
    assert mark.concerns(template)
    template.query.sql = "SELECT 1"
    template.plan = structs.replace(template.plan, calls_strangers=True)
    assert mark.concerns(template)


@pytest.mark.parametrize(("identity", "concerns"), [("p on public.orders", True), ("p on evil.others", False)])
def test_a_mark_of_a_policy_concerns_who_reads_its_table(template, identity, concerns):
    template.tables = ORDERS
    mark = read_mark(json.dumps({"tag": "ALTER POLICY", "objects": [{"oid": 9, "identity": identity}]}).encode())
    assert (mark.concerns(template), mark.may_rename(template)) == (concerns, concerns)


@pytest.mark.parametrize("objects", [b'[{"type": "TABLES"}]', b"[]"])
def test_a_mark_of_default_privileges_concerns_nobody(template, objects):
    mark = read_mark(b'{"tag": "ALTER DEFAULT PRIVILEGES", "objects": ' + objects + b"}")
    assert not (mark.concerns(template) or mark.may_rename(template) or mark.is_blank)
    template.plan = None
    assert not (mark.concerns(template) or mark.may_rename(template))


@pytest.mark.parametrize(
    ("mark", "outdates"),
    [
        (b'{"tag": "ALTER TABLE", "objects": [{"oid": 7, "schema": "public", "name": "orders"}]}', True),
        (b'{"tag": "CREATE FUNCTION", "objects": [{"oid": 8, "schema": "public", "name": "of_it"}]}', True),
        (b'{"tag": "CREATE TABLE", "objects": [{"oid": 9, "schema": "public", "name": "orders"}]}', True),
        (b'{"tag": "ALTER POLICY", "objects": [{"oid": 9, "identity": "p on public.orders"}]}', True),
        (b'{"tag": "DROP POLICY", "objects": [{"oid": 9, "identity": "p on \\"public\\".orders"}]}', True),
        (b'{"tag": "ALTER TABLE", "objects": []}', True),
        (b"unreadable", True),
        (b'{"tag": "GRANT", "objects": [{"type": "TABLE"}]}', False),
        (b'{"tag": "CREATE FUNCTION", "objects": [{"oid": 9, "schema": "evil", "name": "f"}]}', False),
        (b'{"tag": "CREATE POLICY", "objects": [{"oid": 9, "identity": "p on evil.\\"x on public.orders\\""}]}', False),
    ],
)
def test_a_plan_is_outdated_by_marks_since_that_name_what_it_depends_on(mark, outdates):
    marks = RecentMarks()
    marks.add(10.0, read_mark(mark))
    assert marks.outdate(9.0, frozenset({7, 8}), ORDERS) == outdates
    assert not marks.outdate(11.0, frozenset({7, 8}), ORDERS)


def test_marks_that_were_dropped_from_memory_outdate_plans_begun_before_them():
    marks = RecentMarks()
    for number in range(MOST + 10):
        marks.add(float(number), read_mark(b'{"tag": "CREATE TABLE", "objects": [{"oid": 9, "name": "x"}]}'))
    assert marks.outdate(5.0, frozenset({7}), ORDERS) and not marks.outdate(50.0, frozenset({7}), ORDERS)


def test_rights_are_verified_by_a_plan_that_began_after_they_changed(template):
    template.unverified_since_s = 10.0
    template.verify_rights(9.0)
    assert template.unverified_since_s == 10.0
    template.verify_rights(10.0)
    assert template.unverified_since_s is None
