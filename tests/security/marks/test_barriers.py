"""Who may write a barrier, and what becomes of one that cannot be written."""

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from services.capture.outbound import watch
from services.changelog import barrier
from services.changelog.barrier import BarrierForbidden
from tests.integration.watch.stream import Stream

READ = (
    "select data from pg_logical_slot_get_binary_changes(current_database(), null, null, 'proto_version', '1', "
    "'publication_names', 'tidewire')"
)


def came_through(database: psycopg.Connection, barrier_id: str) -> bool:
    return any(barrier_id.encode() in bytes(data) for (data,) in database.execute(READ))


@pytest.mark.parametrize("default", ["on", "off"])
def test_a_service_role_with_the_grant_writes_barriers_and_reads_nothing(watched, login, default):
    watched.execute("select pg_create_logical_replication_slot(current_database(), 'pgoutput')")
    service = login(watched)
    watched.execute(f"grant usage on schema _tidewire to {service.info.user}")
    watched.execute(f"grant execute on function _tidewire.barrier(text) to {service.info.user}")
    service.execute(f"set default_transaction_read_only = {default}")
    assert came_through(watched, barrier.emit(service))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        service.execute("insert into _tidewire.marks (kind, content) values ('ddl', 'x')")


def test_a_role_without_the_grant_is_told_which_one(watched, login):
    with pytest.raises(BarrierForbidden, match=r"GRANT EXECUTE ON FUNCTION _tidewire\.barrier"):
        barrier.emit(login(watched))


def test_before_capture_came_a_barrier_is_written_nowhere(plain):
    assert len(barrier.emit(plain)) == 32


def test_default_privileges_open_nothing_of_ours(plain, login):
    """As applications often have them: everything that this superuser makes is the application's."""

    app = login(plain)
    for kind in ("tables", "functions", "schemas", "sequences"):
        plain.execute(f"alter default privileges grant all on {kind} to {app.info.user}")
    watch.install(plain)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema _tidewire"):
        app.execute("insert into _tidewire.marks (kind, content) values ('ddl', 'x')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schema _tidewire"):
        app.execute("select _tidewire.untrack('pg_class')")
    plain.execute(f"grant usage on schema _tidewire to {app.info.user}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="table marks"):
        app.execute("insert into _tidewire.marks (kind, content) values ('ddl', 'x')")


def test_without_a_superuser_barriers_and_adoptions_arrive_too(plain, login, connect):

    lesser = login(plain)
    plain.execute(f"alter role {lesser.info.user} replication")
    plain.execute(f'grant create on database "{plain.info.dbname}" to {lesser.info.user}')
    plain.execute(f"create schema own authorization {lesser.info.user}")
    watch.install(lesser)
    stream = Stream(lesser)
    lesser.execute("create table own.t (a int)")
    watch.sweep(lesser)
    tags = [mark["tag"] for transaction in stream.read() for mark in transaction.marks]
    lesser.execute("select pg_create_logical_replication_slot(current_database() || '_b', 'pgoutput')")
    barrier_id = barrier.emit(connect(make_conninfo(lesser.info.dsn, password="x")))
    rows = lesser.execute(READ.replace("current_database(),", "current_database() || '_b',")).fetchall()
    assert (tags, any(barrier_id.encode() in bytes(data) for (data,) in rows)) == (["TIDEWIRE ADOPT"], True)
