"""DDL stands in the log before it is visible, and changes what events before it mean: rights, parts, keys."""

import threading
from contextlib import contextmanager

import psycopg
import pytest

from services.gateway.core.cdc.window import KEY_CHANGED, PARTS_CHANGED, RIGHTS_CHANGED
from tests.fixtures.waiting import wait_until


def subscribed(cdc, who, table, **params):
    return who.result("cdc.subscribe_table", db=cdc.database, table=table, format="plain_json", **params)


def polled(who, sub, **params):
    return who.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"], **params)


def rows_of(who, sub):
    return [event["after"] for event in polled(who, sub)["events"]]


def lost_because(who, sub):
    found = polled(who, sub)
    assert found["resnapshot_required"] and found["events"] == [], found
    assert found["next_offset"] == found["resnapshot_from_offset"] > sub["offset"]
    # Behind it the subscription goes on.
    later = who.result("cdc.poll", sub_id=sub["sub_id"], from_offset=found["next_offset"])
    assert not later["resnapshot_required"], later
    return found["resnapshot_reason"]


@contextmanager
def hidden(cdc, *statements):
    """A transaction that is in the log and visible to nobody, as it waits for a standby, until the block is left."""
    settings = {"synchronous_commit": "local", "synchronous_standby_names": "nobody"}
    with psycopg.connect(cdc.captured.dsn, autocommit=True) as own:

        def in_force(name, value):
            with psycopg.connect(cdc.captured.dsn) as fresh:
                return fresh.execute("SELECT current_setting(%s)", [name]).fetchone()[0] == value

        def set_all(values):
            for name, value in values.items():
                own.execute(f"ALTER SYSTEM SET {name} = '{value}'" if value else f"ALTER SYSTEM RESET {name}")
                own.execute("SELECT pg_reload_conf()")
                if value:
                    wait_until(lambda name=name, value=value: in_force(name, value), f"{name} = {value}")

        set_all(settings)
        slow = psycopg.connect(cdc.captured.dsn, autocommit=True)
        slow.execute("SET synchronous_commit = on")
        committing = threading.Thread(target=slow.execute, args=(f"BEGIN; {'; '.join(statements)}; COMMIT",))
        committing.start()
        try:
            where = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'SyncRep'"
            wait_until(lambda: own.execute(where, [slow.info.backend_pid]).fetchone(), "the commit waits")
            yield
        finally:
            own.execute("SELECT pg_cancel_backend(%s)", [slow.info.backend_pid])
            committing.join()
            slow.close()
            set_all(dict.fromkeys(settings))


@pytest.fixture
def table(cdc):
    return cdc.table("id int PRIMARY KEY, v text")


@pytest.fixture
def tree(cdc):
    name = cdc.table("id int PRIMARY KEY, v text) PARTITION BY RANGE (id")
    cdc.sql(f"CREATE TABLE {name}_0 PARTITION OF {name} FOR VALUES FROM (0) TO (10)")
    return name


@pytest.mark.parametrize(
    "end", ["REVOKE SELECT ON {table} FROM {role}", "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"]
)
def test_a_right_whose_loss_is_in_the_log_and_not_visible_yet_is_lost(cdc, table, end):
    """Also for rows of the same transaction."""
    role = cdc.role(f"GRANT SELECT ON {table} TO {{}}")
    user = cdc.user(role)
    sub = subscribed(cdc, user, table, include={"after": True})
    with user.sse(sub["sub_id"]) as stream:
        taking = end.format(table=table, role=role)
        with hidden(cdc, f"INSERT INTO {table} VALUES (1, 'secret')", taking):
            assert user.refusal("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])[0] == "timeout"
        cdc.sql(f"INSERT INTO {table} VALUES (2, 'secret')")
        last = stream.next()
        assert (last.name, last.data["code"]) == ("error", "forbidden")
    assert user.refusal("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])[0] == "forbidden"


@pytest.mark.parametrize(
    "end", ["REASSIGN OWNED BY {role} TO CURRENT_USER", "REVOKE pg_read_all_data FROM {role}"], ids=["owner", "member"]
)
def test_a_right_whose_loss_postgresql_does_not_tell_is_lost_with_the_next_event(cdc, table, end):
    """No event trigger fires for REASSIGN OWNED, nor for what is done to roles."""
    had = f"ALTER TABLE {table} OWNER TO {{}}" if "REASSIGN" in end else "GRANT pg_read_all_data TO {}"
    role = cdc.role(had)
    user = cdc.user(role)
    sub = subscribed(cdc, user, table, include={"after": True})
    with user.sse(sub["sub_id"]) as stream:
        cdc.sql(f"INSERT INTO {table} VALUES (1, 'open')")
        assert stream.next().name == "insert"
        cdc.sql(end.format(role=role))
        cdc.sql(f"INSERT INTO {table} VALUES (2, 'secret')")
        last = stream.next()
        assert (last.name, last.data["code"]) == ("error", "forbidden")
    assert user.refusal("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])[0] == "forbidden"


def test_rows_of_a_time_without_the_right_are_not_told(cdc, table):
    role = cdc.role(f"GRANT SELECT ON {table} TO {{}}")
    user = cdc.user(role)
    sub = subscribed(cdc, user, table, include={"after": True})
    cdc.sql(f"REVOKE SELECT ON {table} FROM {role}")
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'secret')")
    cdc.sql(f"DELETE FROM {table}")
    cdc.sql(f"GRANT SELECT ON {table} TO {role}")
    cdc.sql(f"INSERT INTO {table} VALUES (2, 'open')")
    assert lost_because(user, sub) == RIGHTS_CHANGED
    assert rows_of(user, {**sub, "offset": polled(user, sub)["next_offset"]}) == [{"id": 2, "v": "open"}]


def test_grants_alone_put_nothing_in_doubt(cdc, table):
    user = cdc.user(cdc.role(f"GRANT SELECT ON {table} TO {{}}"))
    sub = subscribed(cdc, user, table, include={"after": True})
    cdc.role(f"GRANT SELECT ON {table} TO {{}}")
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    cdc.role(f"GRANT SELECT ON {table} TO {{}}")
    assert rows_of(user, sub) == [{"id": 1, "v": "a"}]


def test_a_new_partition_that_is_not_visible_yet_is_read(cdc, service, tree):
    sub = subscribed(cdc, service, tree)
    with service.sse(sub["sub_id"]) as stream:
        with hidden(cdc, f"CREATE TABLE {tree}_1 PARTITION OF {tree} FOR VALUES FROM (10) TO (20)"):
            assert service.refusal("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])[0] == "timeout"
        cdc.sql(f"INSERT INTO {tree} VALUES (11, 'x')")
        assert stream.next().data["pk"] == [11]
    assert [event["pk"] for event in polled(service, sub)["events"]] == [[11]]


def test_a_new_partition_with_rows_in_one_transaction_is_told(cdc, service, tree):
    sub = subscribed(cdc, service, tree)
    cdc.sql(
        f"CREATE TABLE {tree}_1 PARTITION OF {tree} FOR VALUES FROM (10) TO (20); INSERT INTO {tree} VALUES (11, 'x')"
    )
    assert [event["pk"] for event in polled(service, sub)["events"]] == [[11]]


@pytest.mark.parametrize(
    "join", ["ALTER TABLE {p} ATTACH PARTITION {c} FOR VALUES FROM (10) TO (20)", "ALTER TABLE {c} INHERIT {p}"]
)
def test_a_table_that_joins_does_not_open_its_past(cdc, tree, table, join):
    parent = tree if "ATTACH" in join else cdc.table("id int PRIMARY KEY, v text")
    user = cdc.user(cdc.role(f"GRANT SELECT ON {parent} TO {{}}"))
    sub = subscribed(cdc, user, parent, include={"after": True})
    cdc.sql(f"INSERT INTO {table} VALUES (11, 'secret')")
    cdc.sql(f"DELETE FROM {table}")
    cdc.sql(join.format(p=parent, c=table))
    cdc.sql(f"INSERT INTO {table} VALUES (12, 'open')")
    assert lost_because(user, sub) == PARTS_CHANGED
    assert rows_of(user, {**sub, "offset": polled(user, sub)["next_offset"]}) == [{"id": 12, "v": "open"}]


def test_a_table_that_was_away_does_not_open_that_time(cdc, tree):
    user = cdc.user(cdc.role(f"GRANT SELECT ON {tree} TO {{}}"))
    sub = subscribed(cdc, user, tree, include={"after": True})
    assert polled(user, sub)["events"] == []
    cdc.sql(f"ALTER TABLE {tree} DETACH PARTITION {tree}_0")
    cdc.sql(f"INSERT INTO {tree}_0 VALUES (1, 'secret'); DELETE FROM {tree}_0")
    cdc.sql(f"ALTER TABLE {tree} ATTACH PARTITION {tree}_0 FOR VALUES FROM (0) TO (10)")
    assert lost_because(user, sub) == PARTS_CHANGED


@pytest.mark.parametrize(
    "leave", ["DROP TABLE {p}_0", "ALTER TABLE {p} DETACH PARTITION {p}_0"], ids=["dropped", "detached"]
)
def test_rows_of_a_partition_that_left_are_not_lost_silently(cdc, service, tree, leave):
    sub = subscribed(cdc, service, tree)
    cdc.sql(f"INSERT INTO {tree} VALUES (1, 'x')")
    cdc.sql(leave.format(p=tree))
    assert lost_because(service, sub) == PARTS_CHANGED


def test_what_joined_before_a_gateway_began_is_known_to_it(cdc, tree, table):
    role = cdc.role(f"GRANT SELECT ON {tree} TO {{}}")
    sub = subscribed(cdc, cdc.user(role), tree, include={"after": True})
    cdc.sql(f"INSERT INTO {table} VALUES (11, 'secret')")
    cdc.sql(f"ALTER TABLE {tree} ATTACH PARTITION {table} FOR VALUES FROM (10) TO (20)")
    cdc.start_gateway()
    try:
        assert lost_because(cdc.user(role, door=-1), sub) == PARTS_CHANGED
    finally:
        cdc.gateways.pop().kill()
        cdc.doors.pop()


def test_columns_of_a_child_alone_are_not_told(cdc, table):
    child = f"{table}_c"
    cdc.sql(f"CREATE TABLE {child} (secret text) INHERITS ({table})")
    user = cdc.user(cdc.role(f"GRANT SELECT ON {table} TO {{}}"))
    sub = subscribed(cdc, user, table, include={"after": True})
    query = user.result("query.prepare", sql=f"SELECT id FROM {table}")["query_id"]
    params = {"query_id": query, "include": {"after": True}, "format": "plain_json"}
    of_query = user.result("cdc.subscribe_query", **params)
    assert user.refusal("cdc.subscribe_query", columns=["secret"], **params)[0] == "invalid_request"
    cdc.sql(f"INSERT INTO {child} VALUES (1, 'a', 'hidden')")
    assert rows_of(user, sub) == [{"id": 1, "v": "a"}]
    assert rows_of(user, of_query) == [{"id": 1, "v": "a"}]


def test_a_child_s_column_that_becomes_the_table_s_does_not_open_its_past(cdc, table):
    child = f"{table}_c"
    cdc.sql(f"CREATE TABLE {child} (secret text) INHERITS ({table})")
    user = cdc.user(cdc.role(f"GRANT SELECT ON {table} TO {{}}"))
    sub = subscribed(cdc, user, table, include={"after": True})
    cdc.sql(f"INSERT INTO {child} VALUES (1, 'a', 'hidden'); DELETE FROM {child}")
    cdc.sql(f"ALTER TABLE {table} ADD COLUMN secret text")
    assert lost_because(user, sub) == PARTS_CHANGED


def test_a_key_is_shown_as_the_subscribed_table_has_it_whoever_reads_first(cdc, service):
    parent = cdc.table("id int, k int) PARTITION BY RANGE (id")
    cdc.sql(f"CREATE TABLE {parent}_0 PARTITION OF {parent} FOR VALUES FROM (0) TO (10)")
    cdc.sql(f"ALTER TABLE {parent}_0 ADD PRIMARY KEY (id)")
    of_parent, of_part = subscribed(cdc, service, parent), subscribed(cdc, service, f"{parent}_0")
    cdc.sql(f"INSERT INTO {parent} VALUES (1, 2)")
    assert "pk" not in polled(service, of_parent)["events"][0]
    assert polled(service, of_part)["events"][0]["pk"] == [1]


def test_events_before_a_key_was_renamed_keep_their_key(cdc, service, table):
    sub = subscribed(cdc, service, table)
    filtered = subscribed(cdc, service, table, pk=[{"t": "i64", "v": 2}])
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    cdc.sql(f"ALTER TABLE {table} RENAME id TO k")
    cdc.sql(f"DELETE FROM {table}")
    assert [event["pk"] for event in polled(service, sub)["events"]] == [[1], [2], [1], [2]]
    assert lost_because(service, filtered) == KEY_CHANGED
    later = {**filtered, "offset": polled(service, filtered)["next_offset"]}
    assert [event["pk"] for event in polled(service, later)["events"]] == [[2]]


def test_a_filter_that_does_not_fit_any_more_is_refused(cdc, service, table):
    filtered = subscribed(cdc, service, table, pk=[{"t": "i64", "v": 2}])
    cdc.sql(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey")
    cdc.sql(f"INSERT INTO {table} VALUES (2, 'b')")
    assert (
        service.refusal("cdc.poll", sub_id=filtered["sub_id"], from_offset=filtered["offset"])[0] == "invalid_request"
    )


def test_filters_by_key_need_the_key_in_old_rows(cdc, service):
    table = cdc.table("id int PRIMARY KEY, u int UNIQUE NOT NULL")
    filtered = subscribed(cdc, service, table, pk=[{"t": "i64", "v": 1}])
    cdc.sql(f"ALTER TABLE {table} REPLICA IDENTITY USING INDEX {table}_u_key")
    wanted = {"db": cdc.database, "table": table}
    for filters in ({"pk": [{"t": "i64", "v": 1}]}, {"pk_range": {"lower_bound": {"t": "i64", "v": 1}}}):
        code, message = service.refusal("cdc.subscribe_table", **wanted, **filters)
        assert code == "precondition_failed" and "REPLICA IDENTITY" in message
    code, _ = service.refusal("cdc.poll", sub_id=filtered["sub_id"], from_offset=0)
    assert code == "precondition_failed"
    cdc.sql(f"INSERT INTO {table} VALUES (1, 5)")
    cdc.sql(f"UPDATE {table} SET id = 2")
    cdc.sql(f"ALTER TABLE {table} REPLICA IDENTITY DEFAULT")
    found = polled(service, filtered)
    assert [event["op"] for event in found["events"]] == ["insert"]
    later = service.result("cdc.poll", sub_id=filtered["sub_id"], from_offset=found["next_offset"])
    assert (later["events"], later["resnapshot_reason"]) == ([], KEY_CHANGED)


@pytest.mark.parametrize("moment", ["now", "Today 12:00", "tomorrow"])
def test_a_bound_means_the_same_whenever_it_is_read(cdc, service, moment):
    table = cdc.table("id timestamptz PRIMARY KEY")
    bound = {"lower_bound": {"t": "datetime", "iso": moment}}
    code, message = service.refusal("cdc.subscribe_table", db=cdc.database, table=table, pk_range=bound)
    assert code == "invalid_request" and "whenever" in message
    role = cdc.role(f"GRANT SELECT ON {table} TO {{}}")
    query = cdc.user(role).result("query.prepare", sql=f"SELECT id FROM {table}")["query_id"]
    assert cdc.user(role).refusal("cdc.subscribe_query", query_id=query, pk_range=bound)[0] == "invalid_request"


def test_tables_that_are_never_in_the_log_are_refused(cdc, service, tree):
    unlogged = f"{tree}_u"
    cdc.sql(f"CREATE UNLOGGED TABLE {unlogged} (id int PRIMARY KEY)")
    user = cdc.user(cdc.role(f"GRANT SELECT ON {unlogged} TO {{}}"))
    query = user.result("query.prepare", sql=f"SELECT id FROM {unlogged}")["query_id"]
    assert user.refusal("cdc.subscribe_query", query_id=query)[0] == "precondition_failed"
    later = subscribed(cdc, service, tree)
    cdc.sql(f"CREATE UNLOGGED TABLE {tree}_1 PARTITION OF {tree} FOR VALUES FROM (10) TO (20)")
    for table in (unlogged, tree, "pg_catalog.pg_class", "information_schema.sql_features", "_tidewire.marks"):
        code, message = service.refusal("cdc.subscribe_table", db=cdc.database, table=table)
        assert (code, "not in the log" in message) == ("precondition_failed", True), table
    assert service.refusal("cdc.poll", sub_id=later["sub_id"], from_offset=later["offset"])[0] == "precondition_failed"
