"""Installing waits for nobody, may be done twice and at once, and says plainly what it could not do."""

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import conninfo

from services.capture.outbound import watch
from services.capture.outbound.watch_errors import MissingPrivilege, Uninstalled, WalLevelNotLogical
from tests.fixtures.postgres import start_postgres
from tests.integration.watch.stream import Stream


def uncovered(connection: psycopg.Connection) -> list[str]:
    rows = connection.execute("select name::text from _tidewire.coverage where not settled order by 1")
    return [name for (name,) in rows]


def test_a_table_that_is_locked_is_adopted_by_a_later_sweep(plain, connect, dsn_of):
    plain.execute("create table keyless (a int)")
    plain.execute("create table keyed (a int primary key)")
    holder = connect(dsn_of(plain))
    holder.execute("begin")
    holder.execute("insert into keyless values (1)")
    holder.execute("insert into keyed values (1)")
    first = watch.install(plain)
    left = uncovered(plain)
    holder.execute("update keyless set a = 2")
    holder.execute("commit")
    assert (first.mode, first.pending, left, watch.sweep(plain), uncovered(plain)) == (
        watch.Mode.STRICT,
        2,
        ["keyed", "keyless"],
        0,
        [],
    )


def test_a_late_adoption_is_marked(plain, connect, dsn_of):
    plain.execute("create table keyless (a int)")
    holder = connect(dsn_of(plain))
    holder.execute("begin")
    holder.execute("lock table keyless in row exclusive mode")
    watch.install(plain)
    holder.execute("commit")
    stream = Stream(plain)
    watch.sweep(plain)
    marks = [mark for transaction in stream.read() for mark in transaction.marks]
    assert [(m["tag"], m["objects"][0]["name"], m["objects"][0]["covered"]) for m in marks] == [
        ("TIDEWIRE ADOPT", "keyless", True)
    ]


def test_installing_at_once_and_again_changes_nothing_more(plain, dsn_of):
    plain.execute("create table keyless (a int)")
    ready = threading.Barrier(4)

    def install() -> watch.Installed:
        with psycopg.connect(dsn_of(plain), autocommit=True) as connection:
            ready.wait()
            return watch.install(connection)

    with ThreadPoolExecutor(4) as pool:
        outcomes = [future.result().mode for future in [pool.submit(install) for _ in range(4)]]
    stream = Stream(plain)
    again = watch.install(plain)
    assert (outcomes, again.pending, stream.read()) == ([watch.Mode.STRICT] * 4, 0, [])


def test_who_waits_while_another_uninstalls_finds_it_uninstalled(watched, connect, dsn_of):
    remover, installer = connect(dsn_of(watched)), connect(dsn_of(watched))
    remover.execute("begin")
    remover.execute(watch.INSTALL_LOCK)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(watch.install, installer, 20_000, only_again=True)
        blocked = "select count(*) from pg_locks where pid = %s and not granted"
        while watched.execute(blocked, [installer.info.backend_pid]).fetchone() == (0,):
            assert not waiting.done()
        remover.execute("drop schema _tidewire cascade")
        remover.execute("commit")
        with pytest.raises(Uninstalled):
            waiting.result(30)


def test_an_older_installation_is_upgraded_in_place(watched):
    watched.execute("create table keyless (a int)")
    watched.execute("update _tidewire.capture set epoch = 7")
    watched.execute("comment on schema _tidewire is 'Tidewire of long ago'")
    watched.execute("drop view _tidewire.untracked")
    watch.install(watched)
    rows = watched.execute(
        "select (select epoch from _tidewire.capture), (select count(*) from _tidewire.identities), "
        "to_regclass('_tidewire.untracked') is not null"
    )
    assert rows.fetchall() == [(7, 1, True)]


def test_a_database_without_logical_wal_is_refused_by_name(tmp_path):
    with (
        start_postgres(tmp_path, settings={"wal_level": "replica"}) as server,
        psycopg.connect(server.dsn, autocommit=True) as connection,
        pytest.raises(WalLevelNotLogical, match="ALTER SYSTEM SET wal_level"),
    ):
        watch.install(connection)


@pytest.fixture
def dsn_of():
    def dsn_of(connection: psycopg.Connection, **changes: str) -> str:
        return conninfo.make_conninfo(connection.info.dsn, **{"password": connection.info.password, **changes})

    return dsn_of


@pytest.fixture
def role(plain):
    """A role without any privilege."""
    name = f"role_{plain.info.dbname}"
    plain.execute(f"create role {name} login password 'x'")
    yield name
    plain.execute(f"drop owned by {name} cascade")
    plain.execute(f"drop role {name}")


def test_missing_privileges_are_named_with_their_remedy(plain, role, connect, dsn_of):
    lesser = connect(dsn_of(plain, user=role, password="x"))
    remedies = []
    for _ in range(2):
        with pytest.raises(MissingPrivilege) as refusal:
            watch.install(lesser)
        remedies.append(refusal.value.remedy)
        plain.execute(refusal.value.remedy)
    assert remedies == [
        f'ALTER ROLE "{role}" REPLICATION',
        f'GRANT CREATE ON DATABASE "{plain.info.dbname}" TO "{role}"',
    ]
    assert watch.install(lesser).mode is watch.Mode.WEAKER


def test_without_a_superuser_the_tables_of_the_role_are_watched_by_polling(plain, role, connect, dsn_of):
    plain.execute(f"alter role {role} replication")
    plain.execute(f'grant create on database "{plain.info.dbname}" to {role}')
    plain.execute(f"create schema theirs authorization {role}")
    plain.execute("create table not_theirs (a int)")
    lesser = connect(dsn_of(plain, user=role, password="x"))
    lesser.execute("create table theirs.before (a int)")
    installed = watch.install(lesser)
    lesser.execute("create table theirs.after (a int, b int)")
    stream = Stream(lesser)
    lesser.execute("insert into theirs.after values (1, 1)")
    pending = watch.sweep(lesser)
    for table in ("theirs.before", "theirs.after"):
        lesser.execute(f"insert into {table} values (2)")
        lesser.execute(f"update {table} set a = 3")
    plain.execute("insert into not_theirs values (1)")
    plain.execute("update not_theirs set a = 2")
    rows = [row for transaction in stream.read() for row in transaction.rows]
    assert (installed.mode, len(installed.reasons), pending) == (watch.Mode.WEAKER, 2, 0)
    assert rows == [
        ("insert", "theirs.before"),
        ("update", "theirs.before"),
        ("insert", "theirs.after"),
        *[("update", "theirs.after")] * 2,
    ]


GRANTS = """
    alter role {role} replication;
    grant create on database "{database}" to {role};
    grant usage on schema _tidewire to {role};
    grant select, update on _tidewire.capture to {role};
    grant execute on function _tidewire.waiting(), _tidewire.adopt(oid), _tidewire.barrier(text) to {role};
"""


def test_what_a_superuser_installed_a_lesser_role_keeps_running(watched, connect, dsn_of):
    name = f"role_{watched.info.dbname}"
    watched.execute(f"create role {name} login password 'x'")
    watched.execute(GRANTS.format(role=name, database=watched.info.dbname))
    lesser = connect(dsn_of(watched, user=name, password="x"))
    watched.execute("alter event trigger tidewire_command_ended disable")
    watched.execute("create table unseen_by_the_trigger (a int)")
    installed = watch.install(lesser)
    left = uncovered(watched)
    lesser.close()
    watched.execute(f"drop owned by {name}; drop role {name}")
    assert (installed, left) == (watch.Installed(mode=watch.Mode.STRICT, reasons=(), pending=0), [])
