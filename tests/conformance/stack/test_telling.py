"""What a client is told of a commit, in which messages and with which bytes."""

from proto.pgwire.live import (
    BACKEND_TYPES,
    Data,
    PartialData,
    PartialRow,
    Selective,
    Update,
    decode_from_gateway,
)
from tests.conformance.stack.sandbox import Subscribed, kind
from tests.fixtures.wire import READY, rows


def test_v16_rows_enter_and_leave_a_filter_as_inserts_and_deletes(sandbox):
    table = sandbox.table("id int PRIMARY KEY, status text, note text")
    sandbox.write(f"INSERT INTO {table} VALUES (1, 'active'), (2, 'closed')")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}", filter="status = 'active'")
        assert held.rows == [(b"1", b"active", None)]
        sandbox.write(f"UPDATE {table} SET status = 'active' WHERE id = 2")
        assert held.next() == Data(held.id, Update.INSERT, ((b"2", b"active", None),))
        sandbox.write(f"UPDATE {table} SET status = NULL WHERE id = 1")
        assert held.next() == Data(held.id, Update.DELETE, ((b"1", b"active", None),))
        sandbox.write(f"UPDATE {table} SET note = 'x'")
        assert held.next() == PartialData(held.id, (PartialRow(3, {0: b"2", 2: b"x"}),))


def test_v17_v51_v52_each_subscription_has_its_own_rule_for_partial_rows(sandbox):
    table = sandbox.table("id int PRIMARY KEY, a int, b int, c int")
    sandbox.write(f"INSERT INTO {table} VALUES (1, 0, 0, 0)")
    rules = {
        None: ["F7", Update.UPDATE],
        Selective(enabled=False): [Update.UPDATE, Update.UPDATE],
        Selective(min_changed_columns=2): [Update.UPDATE, Update.UPDATE],
        Selective(max_changed_columns_ratio=1.0): ["F7", "F7"],
        Selective(min_changed_columns=2, max_changed_columns_ratio=1.0): [Update.UPDATE, "F7"],
    }
    clients = [sandbox.client() for _ in rules]
    held = [
        Subscribed(client, f"SELECT * FROM {table}", selective=rule)
        for client, rule in zip(clients, rules, strict=True)
    ]
    for change in ("a = 1", "a = 2, b = 2, c = 2"):
        sandbox.write(f"UPDATE {table} SET {change}")
        for one in held:
            one.next()
    assert [[kind(message) for message in one.messages] for one in held] == list(rules.values())
    assert {tuple(one.rows) for one in held} == {((b"1", b"2", b"2", b"2"),)}
    for client in clients:
        client.close()


def test_v24_rows_of_one_commit_come_in_one_message_and_rapid_commits_break_nothing(sandbox):
    table = sandbox.table("id int PRIMARY KEY")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        sandbox.write(*(f"INSERT INTO {table} VALUES ({number})" for number in range(3)))
        message = held.next()
        assert (message.update, sorted(message.rows)) == (Update.INSERT, [(b"0",), (b"1",), (b"2",)])
        inserts = [("Q", f"INSERT INTO {table} VALUES ({number})\0".encode()) for number in range(10, 20)]
        client.send(*inserts)
        answered = 0
        while answered < len(inserts):
            frame = client.frame()
            answered += frame.type == READY
            if frame.type in BACKEND_TYPES:
                held.take(decode_from_gateway(frame))
        held.until(sandbox.read(f"SELECT * FROM {table}"))


def test_v20_v25_an_empty_result_is_a_full_without_rows_and_an_equal_one_is_not_sent(sandbox):
    table = sandbox.table("id int PRIMARY KEY, n int")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT count(*) FROM {table} HAVING count(*) > 1")
        assert held.rows == []
        sandbox.write(f"INSERT INTO {table} VALUES (1, 1)")
        sandbox.write(f"UPDATE {table} SET n = 2")
        sandbox.write(f"INSERT INTO {table} VALUES (2, 1)", f"DELETE FROM {table} WHERE id = 2")
        sandbox.write(f"INSERT INTO {table} VALUES (3, 1)")
        assert held.next() == Data(held.id, Update.INSERT, ((b"2",),))
        sandbox.write(f"UPDATE {table} SET n = n", f"UPDATE {table} SET id = id + 10")
        sandbox.write(f"INSERT INTO {table} VALUES (4, 1)")
        held.until([(b"3",)])
        assert {row for message in held.messages for row in message.rows} == {(b"2",), (b"3",)}


def test_v31_v33_v35_values_are_the_bytes_that_postgres_itself_would_send(sandbox):
    table = sandbox.table(
        "id int PRIMARY KEY, b boolean, n numeric(9, 3), f float8, t text, j jsonb, a int[], ts timestamptz, u uuid,"
        " x bytea, i interval, d date"
    )
    sandbox.write(
        f"INSERT INTO {table} VALUES (1, true, 1.5, 0.1, E'tab\\t \\\\ é', '{{\"a\": [1, null]}}', '{{1,NULL,3}}',"
        " '2024-02-29 12:00:00.123456+00', '00000000-0000-0000-0000-00000000000a', '\\x00ff', '1 mon 2 days 03:04:05',"
        " '2024-02-29'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        f"INSERT INTO {table} (id) VALUES (3)",
    )
    with sandbox.client() as client:
        whole = rows(client.query(f"SELECT * FROM {table} ORDER BY id"))
        held = Subscribed(client, f"SELECT * FROM {table}")
        assert sorted(held.rows) == whole
        sandbox.write(f"DELETE FROM {table} WHERE id < 3")
        message = held.next()
        assert (message.update, sorted(message.rows)) == (Update.DELETE, whole[:2]), "whole old rows"


def test_v43_v50_null_goes_both_ways_in_part(sandbox):
    table = sandbox.table("id int PRIMARY KEY, a text, b text, c text")
    sandbox.write(f"INSERT INTO {table} VALUES (1, 'a', NULL, 'c')")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        sandbox.write(f"UPDATE {table} SET a = NULL, b = ''")
        assert held.next() == PartialData(held.id, (PartialRow(4, {0: b"1", 1: None, 2: b""}),))
        assert held.rows == [(b"1", None, b"", b"c")]


def test_v45_without_a_certain_key_nothing_goes_in_part(sandbox):
    """Errata 2.1, points 8 and 9."""
    table = sandbox.table("a int, b int, c text, d text, PRIMARY KEY (a, b)")
    sandbox.write(f"INSERT INTO {table} VALUES (1, 1, 'c', 'd'), (1, 2, 'c', 'd')")
    with sandbox.client() as client:
        part = Subscribed(client, f"SELECT a, c, d, 1 FROM {table}")
        sandbox.write(f"UPDATE {table} SET c = 'x' WHERE b = 1")
        part.until(sandbox.read(f"SELECT a, c, d, 1 FROM {table}"))
        assert [kind(message) for message in part.messages] == [Update.DELETE, Update.INSERT]


def test_v60_the_gateway_counts_under_the_documents_names(sandbox):
    table = sandbox.table("id int PRIMARY KEY, a text, b text, c text")
    before = sandbox.metrics()
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        for change in (
            f"INSERT INTO {table} VALUES (1, 'a', 'b', 'c')",
            f"UPDATE {table} SET a = 'x'",
            f"UPDATE {table} SET a = 'y', b = 'y', c = 'y'",
            f"DELETE FROM {table}",
        ):
            sandbox.write(change)
            held.next()
    after = sandbox.metrics()
    grown = {name for name in after if after[name] > before.get(name, 0)}
    types = ("full", "delta_insert", "delta_update", "delta_delete", "selective")
    decisions = "vibesql_subscription_selective_update_decisions_total"
    assert grown >= {
        *(f'vibesql_subscription_updates_total{{type="{name}"}}' for name in types),
        'vibesql_partial_update_fallbacks_total{reason="threshold_exceeded"}',
        'vibesql_subscription_pk_detection_total{reason="",result="confident"}',
        f'{decisions}{{decision="sent_partial",reason="within_threshold"}}',
        f'{decisions}{{decision="sent_full",reason="threshold_exceeded"}}',
        "vibesql_partial_update_bytes_saved_count",
        "vibesql_selective_update_columns_sent_count",
        "vibesql_selective_update_changed_ratio_count",
        "vibesql_subscription_selective_update_column_ratio_count",
        "vibesql_server_connections_total",
        "vibesql_server_messages_received_total",
        "vibesql_server_messages_sent_total",
        "vibesql_server_bytes_received_total",
        "vibesql_server_bytes_sent_total",
    }
    assert 0 < after["vibesql_partial_update_efficiency"] < 1
    gauges = {"vibesql_subscriptions_active", "vibesql_subscriptions_selective_eligible"}
    assert gauges | {"vibesql_server_queries_total"} <= after.keys()
