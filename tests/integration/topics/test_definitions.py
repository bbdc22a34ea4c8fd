"""The definitions of topics in PostgreSQL: transactional, checked by role, and removed without a trace."""

import json
import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from services.capture.outbound import watch
from services.capture.outbound.watch_removal import uninstall


@pytest.fixture
def installed(database: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as connection:
        watch.install(connection)
        connection.execute("create schema app; create table app.orders (id int primary key, total int, note text)")
        yield connection


@pytest.fixture
def role(installed: psycopg.Connection[Any]) -> Iterator[str]:
    """A role without rights; `dba_of(role)` are those who may define topics."""
    name = f"r_{secrets.token_hex(4)}"
    installed.execute(f"create role {name}; create role {dba_of(name)}")
    installed.execute("update _tidewire.topic_groups set role = %s where service_role = 'dba'", [dba_of(name)])
    yield name
    installed.execute(f"reset role; drop owned by {name}, {dba_of(name)}; drop role {name}, {dba_of(name)}")


def dba_of(role: str) -> str:
    return f"{role}_dba"


def call(connection: psycopg.Connection[Any], **asked: object) -> None:
    connection.execute("call _tidewire_topics.statement(%s)", [json.dumps(asked)])


def create(connection: psycopg.Connection[Any], topic: str = "app.t") -> None:
    call(
        connection, do="CREATE TOPIC", topic=topic, schema="app", if_not_exists=False, partitions=2, at={"topic": "14"}
    )


def add(connection: psycopg.Connection[Any], **more: object) -> None:
    asked = {
        "do": "ALTER TOPIC",
        "action": "add source",
        "topic": "app.t",
        "source_schema": "app",
        "source_table": "orders",
        "op": "Insert",
        "payload_mode": "Key",
        "at": {"topic": "13", "source": "30", "filter": "50", "partition_key": "70"},
    }
    call(connection, **{**asked, **more})


def test_k1_system_topics_shows_routes_as_json_text_and_joins(installed: psycopg.Connection[Any]) -> None:
    create(installed)
    add(installed, filter_expr="(total > 5)", partition_key="note")
    row = installed.execute(
        "select topic_id, name, partitions, routes, pg_typeof(routes)::text from system.topics"
    ).fetchone()
    assert row is not None and row[:3] == ("app.t", "app.t", 2) and row[4] == "text"
    assert json.loads(row[3]) == [
        {
            "table_id": "app.orders",
            "op": "Insert",
            "payload_mode": "Key",
            "filter_expr": "(total > 5)",
            "partition_key_expr": "note",
        }
    ]
    assert installed.execute(
        "select count(*) from system.topics join system.topic_offsets using (topic_id)"
    ).fetchone() == (0,)


def test_a_rolled_back_create_topic_never_was(installed: psycopg.Connection[Any]) -> None:
    with pytest.raises(ZeroDivisionError), installed.transaction():
        create(installed)
        raise ZeroDivisionError
    assert installed.execute("select count(*) from system.topics").fetchone() == (0,)
    create(installed)
    assert installed.execute("select topic_id from system.topics").fetchone() == ("app.t",)


def test_an_id_is_never_given_twice(installed: psycopg.Connection[Any]) -> None:
    create(installed)
    call(installed, do="DROP TOPIC", topic="app.t", if_exists=False, at={})
    create(installed)
    assert installed.execute("select topic_id, name from system.topics").fetchone() == ("app.t-2", "app.t")


@pytest.mark.parametrize(
    ("more", "sqlstate", "words", "place"),
    [
        ({"filter_expr": "(nope = 1)"}, "42703", 'column "nope" does not exist', "50"),
        ({"filter_expr": "(total)"}, "42804", "argument of WHERE must be type boolean, not type integer", "50"),
        ({"partition_key": "nope"}, "42703", 'column "nope" does not exist', "70"),
        ({"source_table": "nope"}, "42P01", "Table 'app.nope' does not exist", "30"),
        ({"topic": "app.no"}, "42704", "Topic 'app.no' does not exist", "13"),
    ],
)
def test_errors_name_the_place(
    installed: psycopg.Connection[Any], more: dict[str, object], sqlstate: str, words: str, place: str
) -> None:
    create(installed)
    with pytest.raises(psycopg.Error) as refused:
        add(installed, **more)
    found = refused.value.diag
    assert (found.sqlstate, found.message_primary, found.column_name) == (sqlstate, words, place)


def test_k13_the_same_route_again_is_success_a_conflicting_one_an_error(installed: psycopg.Connection[Any]) -> None:
    create(installed)
    add(installed)
    add(installed)
    with pytest.raises(psycopg.Error, match=r"Route for app\.orders ON INSERT already exists in topic 'app\.t'"):
        add(installed, payload_mode="Full")
    with pytest.raises(psycopg.Error, match=r"Topic 'app\.t' already exists"):
        create(installed)
    with pytest.raises(psycopg.Error, match="Namespace 'nowhere' does not exist"):
        call(installed, do="CREATE TOPIC", topic="nowhere.t", schema="nowhere", partitions=1, at={})


def test_a_filter_is_read_with_the_rights_of_its_maker(installed: psycopg.Connection[Any], role: str) -> None:
    """An immutable function is folded while planning: by the installer it would run as a superuser."""
    create(installed)
    installed.execute(
        "create function app.spy() returns int language plpgsql immutable as "
        "$$ begin raise exception 'ran as %', current_user; end $$"
    )
    installed.execute(f"grant usage on schema app to {role}; grant select on app.orders to {role}")
    installed.execute(f"set role {role}")
    with pytest.raises(psycopg.Error, match=f"ran as {role}"):
        add(installed, filter_expr="(total > app.spy())")


def test_k18_only_dba_and_system_define_topics(installed: psycopg.Connection[Any], role: str) -> None:
    installed.execute(f"set role {role}")
    with pytest.raises(psycopg.Error, match="CREATE TOPIC requires DBA or System role") as refused:
        create(installed)
    assert refused.value.sqlstate == "42501"
    installed.execute(f"reset role; grant {dba_of(role)} to {role}; set role {role}")
    create(installed)
    assert installed.execute("select owner::text from system.topics").fetchone() == (role,)


def test_a_route_needs_the_right_to_read_the_whole_table(installed: psycopg.Connection[Any], role: str) -> None:
    create(installed)
    installed.execute(f"grant {dba_of(role)} to {role}; grant usage on schema app to {role}; set role {role}")
    with pytest.raises(psycopg.Error, match=r"permission denied for table app\.orders"):
        add(installed)
    installed.execute(
        f"reset role; grant select on app.orders to {role}; alter table app.orders enable row level security"
    )
    installed.execute(f"set role {role}")
    with pytest.raises(psycopg.Error, match=r"permission denied for table app\.orders"):
        add(installed)
    installed.execute("reset role; alter table app.orders disable row level security")
    installed.execute(f"set role {role}")
    add(installed)
    assert installed.execute("select count(*) from system.topics where routes like '%app.orders%'").fetchone() == (1,)


def test_uninstall_takes_topics_out_and_leaves_a_foreign_system_schema(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        watch.install(connection)
        assert {"dropped schema _tidewire_topics", "dropped schema system"} <= set(uninstall(connection, "none"))
        connection.execute("create schema system; create table system.mine (a int primary key)")
        watch.install(connection)
        assert "dropped schema system" not in uninstall(connection, "none")
        assert connection.execute("select count(*) from system.mine").fetchone() == (0,)
