"""Marks and barriers that count are written by our functions alone; what a login emits is an ordinary message."""

import json
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.errors import InsufficientPrivilege

from proto.streams.changes import BarrierPassed, RowChanged, SchemaChanged
from tests.fixtures.capture import CapturedDatabase

FORGED = {
    "garbage": ("tidewire.ddl", "x"),
    "well-formed": ("tidewire.ddl", json.dumps({"tag": "DROP TABLE", "objects": []})),
    "barrier": ("tidewire.barrier", "0" * 32),
    "barrier of bytes": ("tidewire.barrier", "\\xff00"),
    "actor": ("tidewire.actor", "root"),
    "unknown": ("tidewire.anything", "x"),
}


@pytest.fixture
def attacker(captured: CapturedDatabase) -> Iterator[psycopg.Connection]:
    """A login without any grant on the database that is captured."""
    with captured.connect() as owner:
        name = f"attacker_{owner.info.dbname}"
        owner.execute(sql.SQL("create role {} login password 'x'").format(sql.Identifier(name)))
        with psycopg.connect(make_conninfo(captured.dsn, user=name, password="x"), autocommit=True) as connection:
            yield connection
        owner.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(name)))


@pytest.mark.parametrize(("prefix", "content"), FORGED.values(), ids=FORGED)
def test_a_message_that_a_login_emits_is_no_mark(captured, attacker, prefix, content):
    captured.start().wait_ready()
    attacker.execute("select pg_logical_emit_message(true, %s, %s)", [prefix, content])
    attacker.execute("select pg_logical_emit_message(false, %s, %s)", [prefix, content])
    events = captured.events_up_to_now()
    assert [event for event in events if isinstance(event, SchemaChanged | BarrierPassed)] == []


def test_forged_messages_between_rows_move_no_seq_and_no_ordinal(captured, attacker):
    captured.start().wait_ready()
    with captured.connect() as owner:
        owner.execute("create table public.t (a int primary key)")
        owner.execute(f"grant insert on public.t to {attacker.info.user}")
    with attacker.transaction():
        for number in range(3):
            attacker.execute("insert into public.t values (%s)", [number])
            attacker.execute("select pg_logical_emit_message(true, 'tidewire.ddl', 'x')")
    rows = [event for event in captured.events_up_to_now() if isinstance(event, RowChanged)]
    assert [(row.seq - rows[0].seq, row.ordinal) for row in rows] == [(0, 0), (1, 1), (2, 2)]


def test_our_marks_stand_among_the_rows_without_a_seq(captured):
    captured.start().wait_ready()
    with captured.connect() as owner, owner.transaction():
        owner.execute("create table t (a int primary key)")
        owner.execute("insert into t values (1)")
        owner.execute("alter table t add b int")
        owner.execute("insert into t values (2)")
    told = [
        (type(event).__name__, event.ordinal)
        for event in captured.events_up_to_now()
        if isinstance(event, RowChanged | SchemaChanged)
    ]
    seqs = [event.seq for event in captured.events_up_to_now() if isinstance(event, RowChanged)]
    assert [name for name, _ in told] == ["SchemaChanged", "RowChanged", "SchemaChanged", "RowChanged"]
    assert [ordinal for _, ordinal in told] == list(range(4))
    assert seqs[1] - seqs[0] == 1


@pytest.mark.parametrize(
    "attempt",
    [
        "insert into _tidewire.marks (kind, content) values ('ddl', 'x')",
        "select _tidewire.mark('DROP TABLE', '[]')",
        "select _tidewire.barrier('x')",
        "create table _tidewire.marks2 (a int)",
        "lock table _tidewire.capture in share mode",
        "select * from _tidewire.capture",
    ],
)
def test_a_login_reaches_nothing_in_our_schema(captured, attacker, attempt):
    captured.start().wait_ready()
    with pytest.raises(InsufficientPrivilege, match="schema _tidewire"), attacker.transaction():
        attacker.execute(attempt)


def test_marks_leave_no_row_behind(captured):
    captured.start().wait_ready()
    with captured.connect() as owner:
        owner.execute("create table t (a int)")
        owner.execute("drop table t")
        owner.execute("select _tidewire.barrier('x')")
        assert owner.execute("select count(*) from _tidewire.marks").fetchone() == (0,)
