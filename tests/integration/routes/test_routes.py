"""Committed changes become messages of durable topics: which, in which form, and under whose rights."""

import json

from proto.tidewire.v1.user_topics_pb2 import TopicOperation
from tests.integration.routes.stack import RoutesStack

INSERT, UPDATE, DELETE = (
    TopicOperation.TOPIC_OPERATION_INSERT,
    TopicOperation.TOPIC_OPERATION_UPDATE,
    TopicOperation.TOPIC_OPERATION_DELETE,
)


def test_k26_k27_a_route_carries_every_change_after_it_once_in_commit_order(stack: RoutesStack):
    """Made before any worker was there: rows before the route are not in it, all after it are (K6: gap-free)."""
    stack.stop_workers()
    stack.db.execute("insert into app.orders values (1, 10, 'before')")
    stack.create("app.t")
    stack.route("app.t", "orders", "Insert")
    for op in ("Update", "Delete"):
        stack.route("app.t", "orders", op, "Diff" if op == "Update" else "Full")
    stack.db.execute("insert into app.orders values (2, 20, 'x'), (3, 30, null)")
    stack.ensure_worker()
    stack.db.execute("update app.orders set total = 21 where id = 2")
    stack.db.execute("update app.orders set total = total where id = 3")
    stack.db.execute("delete from app.orders where id = 2")
    stack.db.execute("truncate app.orders")
    stack.settle()
    assert [(one.offset, one.operation) for one in stack.messages("app.t")] == [
        (0, INSERT),
        (1, INSERT),
        (2, UPDATE),
        (3, UPDATE),
        (4, DELETE),
        (5, DELETE),
        (6, DELETE),
    ]
    table = {"_table": "app.orders"}
    inserted, null, changed, equal, deleted, *truncated = stack.payloads("app.t")
    assert inserted == {"id": 2, "total": 20, "note": "x", **table}
    assert null == {"id": 3, "total": 30, "note": None, **table}
    assert changed == {"id": 2, **table, "_changed": {"total": {"old": 20, "new": 21}}}
    assert equal == {"id": 3, **table, "_changed": {}}
    assert deleted == {"id": 2, "total": 21, "note": "x", **table, "_deleted": True}
    assert sorted(truncated, key=lambda row: row["id"]) == [
        {"id": 1, "total": 10, "note": "before", **table, "_deleted": True},
        {"id": 3, "total": 30, "note": None, **table, "_deleted": True},
    ]


def test_filters_mean_what_postgresql_says_and_what_it_cannot_say_is_kept_aside(stack: RoutesStack):
    """K8, and the dead letters of a route: one row divides by zero, the others go on."""
    stack.ensure_worker()
    stack.create("app.t", partitions=4)
    expression = "(100 / total > 3 and note ilike 'A%' or note is null)"
    stack.route("app.t", "orders", "Insert", filter_expr=expression, partition_key="note")
    rows = [(1, 10, "abc"), (2, 50, "abc"), (3, 0, "abc"), (4, 1, "xyz"), (5, 99, None), (6, None, "abc")]
    with stack.db.cursor() as cursor:
        cursor.executemany("insert into app.orders values (%s, %s, %s)", rows)
    stack.settle()
    found = {number: [one.key for one in stack.messages("app.t", number)] for number in range(4)}
    answered = stack.db.execute(
        f"with o as materialized (select * from app.orders where id <> 3) select id from o where {expression}"
    )
    expected = sorted(str(key) for (key,) in answered)
    assert sorted(key for keys in found.values() for key in keys) == expected == ["1", "5"]
    dead = stack.db.execute("select group_id, reason, dead_offset from _tidewire.topic_dead").fetchall()
    assert dead == [("", "division by zero", 0)]


def test_k26_a_filter_reads_the_new_row_of_an_update_and_the_old_one_of_a_delete(stack: RoutesStack):
    """By a worker that took over: which routes there are, and with which filter, is stored (K3, KR4)."""
    stack.ensure_worker()
    stack.create("app.t")
    for op in ("Insert", "Update", "Delete"):
        stack.route("app.t", "orders", op, "Key", filter_expr="(total > 10)")
    stack.settle()
    stack.stop_workers()
    stack.start()
    stack.db.execute("insert into app.orders values (1, 5, ''), (2, 50, '')")
    stack.db.execute("update app.orders set total = 20 where id = 1")  # only the new row matches
    stack.db.execute("update app.orders set total = 5 where id = 2")  # only the old one
    stack.db.execute("delete from app.orders")
    stack.settle()
    found = [(one.operation, one.key) for one in stack.messages("app.t")]
    assert found == [(INSERT, "2"), (UPDATE, "1"), (DELETE, "1")]


def test_k5_key_payloads_partitions_and_actors(stack: RoutesStack):
    """K5, KR1, decision 24: the key alone; a row keeps its partition; who wrote is his own word, or else the owner."""
    stack.ensure_worker()
    stack.create("app.t", partitions=3)
    stack.route("app.t", "orders", "Insert", "Key")
    stack.route("app.t", "orders", "Delete", "Key")
    with stack.db.transaction():
        stack.db.execute("select pg_logical_emit_message(true, 'tidewire.actor', 'ann')")
        stack.db.execute("insert into app.orders select n, n, 'x' from generate_series(1, 30) n")
    stack.db.execute("delete from app.orders")
    stack.settle()
    owner = stack.db.execute("select current_user::text").fetchone()[0]  # type: ignore[index]
    for number in range(3):
        messages = stack.messages("app.t", number)
        assert [one.offset for one in messages] == list(range(len(messages))) and messages
        inserted = [one for one in messages if one.operation == INSERT]
        assert {(one.user, one.user_is_claimed) for one in inserted} == {("ann", True)}
        deleted = [one for one in messages if one.operation == DELETE]
        assert {(one.user, one.user_is_claimed) for one in deleted} == {(owner, False)}
        assert {one.key for one in deleted} == {one.key for one in inserted}
        assert json.loads(deleted[0].payload) == {"id": int(deleted[0].key), "_deleted": True}


def test_a_route_whose_maker_lost_his_rights_carries_nothing_until_he_has_them_again(stack: RoutesStack):
    """Decision 19."""
    stack.ensure_worker()
    stack.db.execute("do $$ begin create role routes_maker; exception when duplicate_object then null; end $$")
    stack.db.execute("grant usage on schema app to routes_maker; grant select on app.orders to routes_maker")
    stack.create("app.t")
    stack.route("app.t", "orders", "Insert")
    stack.db.execute("update _tidewire.topic_routes set role = 'routes_maker'")
    stack.define(do="ALTER TOPIC", action="clear retention", topic="app.t")
    stack.db.execute("insert into app.orders values (1, 1, '')")
    stack.db.execute("revoke select on app.orders from routes_maker")
    stack.db.execute("insert into app.orders values (2, 2, '')")
    stack.db.execute("grant select on app.orders to routes_maker")
    stack.db.execute("alter table app.orders enable row level security")
    stack.db.execute("insert into app.orders values (3, 3, '')")
    stack.settle()
    stack.db.execute("alter table app.orders disable row level security")
    stack.db.execute("insert into app.orders values (4, 4, '')")
    stack.settle()
    keys = [one.key for one in stack.messages("app.t")]
    stack.db.execute("drop owned by routes_maker; drop role routes_maker")
    assert "2" not in keys and "3" not in keys and keys[-1] == "4"


def test_cleared_topics_go_on_counting_and_dropped_ones_are_gone(stack: RoutesStack):
    stack.ensure_worker()
    stack.create("app.t")
    stack.route("app.t", "orders", "Insert")
    stack.db.execute("insert into app.orders values (1, 1, ''), (2, 2, '')")
    stack.define(do="CLEAR TOPIC", topic="app.t")
    stack.db.execute("insert into app.orders values (3, 3, '')")
    stack.settle()
    marks = [(one.operation, one.offset) for one in stack.records("app.t")]
    assert marks == [(0, 0), (INSERT, 0), (INSERT, 1), (0, 2), (INSERT, 2)]
    stack.define(do="DROP TOPIC", topic="app.t", if_exists=False)
    stack.settle()
    assert stack.records("app.t") == []
