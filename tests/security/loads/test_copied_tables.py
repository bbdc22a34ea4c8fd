"""Copying a table runs no code of its owner's with the rights of the service."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import conninfo

from services.chassis.postgres import Postgres
from services.recompute.core.catalog import Column, PgType, Table
from services.recompute.outbound.postgres.table_copy import (
    Pages,
    TableChanged,
    TableCopy,
    TableGone,
    Untrusted,
    copy_part,
)

BOOL, INT4 = PgType(16, "bool"), PgType(23, "int4")
# It is silent for its owner, who has to make indexes with it.
HOSTILE = """
create function own.hostile(int) returns int immutable language plpgsql as $$ begin
    if current_user <> '{owner}' then raise exception 'hostile code ran as %', current_user; end if;
    return 1;
end $$
"""
REFUSED = (TableChanged, TableGone, Untrusted, psycopg.errors.WrongObjectType)

Owner = Callable[[psycopg.Connection], psycopg.Connection]


@pytest.fixture
def owner(watched: psycopg.Connection, schema_owner: Owner) -> psycopg.Connection:
    owner = schema_owner(watched)
    owner.execute(HOSTILE.format(owner=owner.info.user))
    owner.execute("create table own.t (a int primary key, b bool)")
    owner.execute("insert into own.t select i, i % 2 = 0 from generate_series(1, 3000) i")
    return owner


def dsn_of(database: psycopg.Connection) -> str:
    return conninfo.make_conninfo(database.info.dsn, password=database.info.password)


def the_table(connection: psycopg.Connection, *columns: Column) -> Table:
    (oid,) = connection.execute("select 'own.t'::regclass::oid::int").fetchone()
    columns = columns or (Column("a", INT4, not_null=True), Column("b", BOOL))
    return Table(oid=oid, schema="own", name="t", columns=columns, key=(0,))


def copied(database: psycopg.Connection, table: Table) -> tuple[int, int, int]:
    """How many rows come by the driver's way and by the tasks' way, and in how many parts."""
    copying = TableCopy(Postgres(dsn=dsn_of(database)), part_bytes=1 << 14)
    with copying.open(table) as (opened, connection):
        ticket = opened.ticket
        last = ticket.parts - 1
        parts = [
            Pages(at * ticket.pages_a_part, None if at == last else (at + 1) * ticket.pages_a_part)
            for at in range(ticket.parts)
        ]
        by_tasks = sum(batch.num_rows for part in parts for batch in copy_part(ticket, part))
        return len(copying.rows(opened, connection)), by_tasks, ticket.parts


@contextmanager
def committed_when_waited_for(database: psycopg.Connection, attack: psycopg.Connection) -> Iterator[None]:
    """Commit the attack's transaction once somebody waits for its locks."""
    done = threading.Event()

    def commit() -> None:
        with psycopg.connect(dsn_of(database), autocommit=True) as watching:
            waiting = "select 1 from pg_locks where not granted and relation is not null and database = %s::oid"
            (here,) = watching.execute("select oid from pg_database where datname = current_database()").fetchone()
            while not done.wait(0.005) and not watching.execute(waiting, [here]).fetchone():
                pass
        attack.commit()

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.fixture
def attack(owner: psycopg.Connection) -> Iterator[psycopg.Connection]:
    with psycopg.connect(conninfo.make_conninfo(owner.info.dsn, password="x")) as attack:
        yield attack


def test_a_view_put_in_the_tables_place_is_not_read(watched, owner, attack):
    table = the_table(watched)
    attack.execute("alter table own.t rename to t_old")
    attack.execute("create view own.t as select 1 as a, own.hostile(1) = 1 as b")
    with committed_when_waited_for(watched, attack), pytest.raises(REFUSED):
        copied(watched, table)


def test_a_column_given_a_type_with_a_cast_of_the_owners_is_not_read(watched, owner, attack):
    table = the_table(watched)
    attack.execute("create type own.mood as (x int)")
    attack.execute("create function own.to_int(own.mood) returns int immutable language sql as 'select own.hostile(1)'")
    attack.execute("create cast (own.mood as int) with function own.to_int(own.mood)")
    attack.execute("alter table own.t alter b type own.mood using row(1)::own.mood")
    with committed_when_waited_for(watched, attack), pytest.raises(REFUSED):
        copied(watched, table)


@pytest.mark.parametrize(
    "planned",
    [
        "create index on own.t ((a + own.hostile(1)))",
        "create index on own.t (a) where a > own.hostile(1)",
        "create statistics own.s on (a + own.hostile(1)), b from own.t",
    ],
)
def test_expressions_that_planning_would_evaluate_are_not_evaluated(watched, owner, planned):
    owner.execute(planned)
    assert copied(watched, the_table(watched)) == (3000, 3000, 1)


def test_a_table_given_to_a_superuser_still_has_its_former_owners_index(watched, owner):
    owner.execute("create index on own.t ((a + own.hostile(1)))")
    watched.execute("alter table own.t owner to current_user; alter schema own owner to current_user")
    assert copied(watched, the_table(watched)) == (3000, 3000, 1)


def test_a_generated_column_of_an_untrusted_owner_is_left_to_postgresql(watched, owner):
    owner.execute("alter table own.t add c int generated always as (a + 1) stored")
    with pytest.raises(Untrusted):
        copied(watched, the_table(watched, Column("a", INT4), Column("c", INT4, generated="s")))


def test_a_table_of_trusted_owners_is_copied_in_parts(watched, owner):
    owner.execute("create index on own.t ((a + 1))")
    watched.execute("alter table own.t owner to current_user; alter schema own owner to current_user")
    by_driver, by_tasks, parts = copied(watched, the_table(watched))
    assert (by_driver, by_tasks) == (3000, 3000)
    assert parts > 1
