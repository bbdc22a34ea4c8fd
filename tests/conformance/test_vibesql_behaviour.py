"""What clients of the whole road see: the behaviours of the golden vectors, and the requirements that they leave out.

All in one module, since the road is started once for a module.
"""

import os
from collections import Counter
from uuid import uuid4

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from proto.pgwire.live import (
    BACKEND_TYPES,
    DATA,
    NO_SUBSCRIPTION,
    Ack,
    Data,
    PartialData,
    PartialRow,
    Pause,
    Refused,
    Resume,
    Selective,
    Subscribe,
    Unsubscribe,
    Update,
    decode_from_gateway,
)
from services.gateway.core.parcel import Shape, Tally
from services.gateway.core.selective import Verdict
from services.gateway.metrics import PartialRows
from tests.conformance.filtered import answer, relation_of
from tests.conformance.scenarios import scenario_of
from tests.conformance.stage import LIMITS, Stage, Subscribed, kind, kinds, refused
from tests.conformance.vectors import VECTORS, of_kind
from tests.fixtures.walk import walking
from tests.fixtures.wire import rows


@pytest.fixture(scope="module")
def walk(postgres_server, kafka, tmp_path_factory):
    with walking(postgres_server, kafka, tmp_path_factory.mktemp("walk"), **LIMITS) as made:
        yield made


@pytest.fixture(scope="module")
def direct(walk):
    """Straight to PostgreSQL."""
    with walk.connect() as connection:
        yield connection


@pytest.fixture(scope="module")
def stage(walk, direct):
    return Stage(walk, direct)


@pytest.fixture(scope="module")
def role(stage):
    """Somebody who may log in, by his name as password, and no more."""
    name = f"somebody_{os.getpid()}"
    stage.write(f"CREATE ROLE {name} LOGIN PASSWORD '{name}'")
    yield name
    stage.write(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@pytest.fixture(scope="module")
def numbered(stage):
    """A table and a sequence of which nothing may be changed."""
    table = stage.table("id int PRIMARY KEY, n int")
    stage.write(f"INSERT INTO {table} VALUES (1, 1)", f"CREATE SEQUENCE {table}_numbers")
    return table


def is_figure(vector):
    """Nothing but arithmetic: no stack is needed for it."""
    return "record" in vector


def test_every_behaviour_is_played():
    behaviours = [vector for vector in VECTORS if vector["kind"] == "behaviour" and not is_figure(vector)]
    assert [vector["id"] for vector in behaviours if scenario_of(vector) is None] == []


@of_kind("behaviour", where=lambda vector: not is_figure(vector))
def test_a_behaviour(stage, vector):
    scenario_of(vector)(stage, vector)


@of_kind("behaviour", where=is_figure)
def test_v60_the_efficiency_of_partial_rows(vector):
    sent, columns = vector["record"]
    registry = CollectorRegistry()
    row = Shape(changed=max(0, sent - 1), sent=sent, columns=columns)
    PartialRows(registry).count(Tally(("selective",), Counter({(Verdict.PARTIAL, row): 1})), 1)
    page = dict(line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines() if line[0] != "#")
    assert float(page["vibesql_partial_update_efficiency"]) == pytest.approx(vector["expect_efficiency"])


@of_kind("filter_eval")
def test_v13_a_filter_on_the_road_keeps_what_postgres_keeps(stage, direct, vector):
    relation = relation_of(direct, vector)
    table = stage.table_of(f"SELECT * FROM {relation}")
    with stage.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}", filter=vector["filter"])
        assert bool(held.rows) == answer(direct, relation, vector["filter"])
        stage.write(f"DELETE FROM {table}")
        held.until([])


def test_v4_v5_a_client_without_live_messages_sees_none_and_one_with_can_skip_them_by_their_length(stage):
    table = stage.table("id int PRIMARY KEY")
    with stage.client() as ordinary, stage.client() as live:
        held = Subscribed(live, f"SELECT * FROM {table}")
        for number in range(20):
            assert kinds(ordinary.query(f"INSERT INTO {table} VALUES ({number})")) == "CZ"
        held.until(stage.read(f"SELECT * FROM {table}"))
        stage.write(f"DELETE FROM {table}")
        seen = ""
        while chr(DATA) not in seen:
            seen += kinds(live.query("SELECT 1"))
        # What is left when everything is passed over that PostgreSQL does not have is what PostgreSQL says.
        assert set(seen.replace(chr(DATA), "").split("TDCZ")) == {""}


def test_v9_v12_parameters_are_bound_and_null_is_not_the_empty_string(stage):
    table = stage.table("id int PRIMARY KEY, name text")
    stage.write(f"INSERT INTO {table} VALUES (1, ''), (2, NULL), (3, '$1')")
    sql = f"SELECT id FROM {table} WHERE name IS NOT DISTINCT FROM $1 AND id < $2"
    with stage.client() as client:
        for value, found in ((b"", b"1"), (None, b"2"), (b"$1", b"3")):
            held = Subscribed(client, sql, (value, b"100"))
            assert held.rows == [(found,)]
            client.send(Unsubscribe(held.id))
        held = Subscribed(client, sql, (b"", b"100"))
        stage.write(f"INSERT INTO {table} VALUES (4, NULL), (5, ''), (101, '')")
        assert held.next() == Data(held.id, Update.INSERT, ((b"5",),))
        for wrong in ((), (b"",), (b"", b"much"), (b"", b"1", b"1")):
            message = refused(client, sql, wrong).message
            assert message.startswith(("Execution error: ", "Parse error: ")), message


def test_v16_rows_enter_and_leave_a_filter_as_inserts_and_deletes(stage):
    table = stage.table("id int PRIMARY KEY, status text, note text")
    stage.write(f"INSERT INTO {table} VALUES (1, 'active'), (2, 'closed')")
    with stage.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}", filter="status = 'active'")
        assert held.rows == [(b"1", b"active", None)]
        stage.write(f"UPDATE {table} SET status = 'active' WHERE id = 2")
        assert held.next() == Data(held.id, Update.INSERT, ((b"2", b"active", None),))
        stage.write(f"UPDATE {table} SET status = NULL WHERE id = 1")
        assert held.next() == Data(held.id, Update.DELETE, ((b"1", b"active", None),))
        stage.write(f"UPDATE {table} SET note = 'x'")
        assert held.next() == PartialData(held.id, (PartialRow(3, {0: b"2", 2: b"x"}),))


def test_v17_v51_v52_each_subscription_has_its_own_rule_for_partial_rows(stage):
    table = stage.table("id int PRIMARY KEY, a int, b int, c int")
    stage.write(f"INSERT INTO {table} VALUES (1, 0, 0, 0)")
    rules = {
        None: ["F7", Update.UPDATE],
        Selective(enabled=False): [Update.UPDATE, Update.UPDATE],
        Selective(min_changed_columns=2): [Update.UPDATE, Update.UPDATE],
        Selective(max_changed_columns_ratio=1.0): ["F7", "F7"],
        Selective(min_changed_columns=2, max_changed_columns_ratio=1.0): [Update.UPDATE, "F7"],
    }
    clients = [stage.client() for _ in rules]
    held = [
        Subscribed(client, f"SELECT * FROM {table}", selective=rule)
        for client, rule in zip(clients, rules, strict=True)
    ]
    for change in ("a = 1", "a = 2, b = 2, c = 2"):
        stage.write(f"UPDATE {table} SET {change}")
        for one in held:
            one.next()
    assert [[kind(message) for message in one.messages] for one in held] == list(rules.values())
    assert {tuple(one.rows) for one in held} == {((b"1", b"2", b"2", b"2"),)}
    for client in clients:
        client.close()


def test_v20_v25_an_empty_result_is_a_full_without_rows_and_an_equal_one_is_not_sent(stage):
    table = stage.table("id int PRIMARY KEY, n int")
    with stage.client() as client:
        held = Subscribed(client, f"SELECT count(*) FROM {table} HAVING count(*) > 1")
        assert held.rows == []
        stage.write(f"INSERT INTO {table} VALUES (1, 1)")
        stage.write(f"UPDATE {table} SET n = 2")
        stage.write(f"INSERT INTO {table} VALUES (2, 1)", f"DELETE FROM {table} WHERE id = 2")
        stage.write(f"INSERT INTO {table} VALUES (3, 1)")
        assert held.next() == Data(held.id, Update.INSERT, ((b"2",),))
        stage.write(f"UPDATE {table} SET n = n", f"UPDATE {table} SET id = id + 10")
        stage.write(f"INSERT INTO {table} VALUES (4, 1)")
        held.until([(b"3",)])
        assert {row for message in held.messages for row in message.rows} == {(b"2",), (b"3",)}


def test_v22_v23_subscribing_leaves_queries_and_transactions_as_they_were(stage):
    table = stage.table("id int PRIMARY KEY")
    good, bad = Subscribe(f"SELECT * FROM {table}"), Subscribe("SELECT * FROM nowhere")
    with stage.client() as client:
        client.query(f"BEGIN; INSERT INTO {table} VALUES (1)")
        assert isinstance(refused(client, bad.query), Refused)
        held = Subscribed(client, good.query)
        assert held.rows == [], "what is not committed is not seen"
        assert client.query("SELECT 1")[-1].body == b"T"
        assert client.query("SELECT 1/0")[-1].body == b"E"
        assert isinstance(refused(client, bad.query), Refused)
        again = Subscribed(client, good.query)
        assert client.query("SELECT 1")[-1].body == b"E"
        assert client.query("ROLLBACK")[-1].body == b"I"
        none = b"\0\0"
        client.send(("P", b"\0SELECT 7\0" + none), bad, ("B", b"\0\0" + none * 3), good, ("E", bytes(5)), ("S", b""))
        frames = client.frames_to_ready()
        assert rows(frames) == [(b"7",)]
        told = [decode_from_gateway(frame) for frame in frames if frame.type in BACKEND_TYPES]
        while len(told) < 3:
            told.append(client.live())
        (third,) = [one.subscription for one in told if isinstance(one, Ack)]
        assert {type(one) for one in told} == {Ack, Data, Refused}
        stage.write(f"INSERT INTO {table} VALUES (2)")
        assert {client.live().subscription for _ in range(3)} == {held.id, again.id, third}


@pytest.mark.parametrize("farewell", ["Terminate", "EOF"])
def test_v29_a_client_that_leaves_takes_its_subscriptions_with_it(stage, farewell):
    table = stage.table("id int PRIMARY KEY")
    stage.wait_for_nobody()
    client = stage.client()
    for _ in range(3):
        Subscribed(client, f"SELECT * FROM {table}")
    assert stage.metrics()["vibesql_subscriptions_active"] == 3
    if farewell == "Terminate":
        client.send(("X", b""))
        assert client.frame() is None
    else:
        client.hang_up()
    stage.wait_for_nobody()
    stage.wait_until(lambda: stage.metrics("registry")["tidewire_registry_subscriptions"] == 0)
    client.close()


def test_v30_ids_that_are_unknown_or_of_others_are_ignored_in_silence(stage):
    table = stage.table("id int PRIMARY KEY")
    with stage.client() as owner, stage.client() as stranger:
        held, own = (Subscribed(client, f"SELECT * FROM {table}") for client in (owner, stranger))
        for subscription in (held.id, uuid4(), NO_SUBSCRIPTION):
            stranger.send(Pause(subscription), Resume(subscription), Unsubscribe(subscription), Pause(subscription))
        assert kinds(stranger.query("SELECT 1")) == "TDCZ"
        stage.write(f"INSERT INTO {table} VALUES (1)")
        for one in (held, own):
            assert one.next() == Data(one.id, Update.INSERT, ((b"1",),))


def test_v31_v33_v35_values_are_the_bytes_that_postgres_itself_would_send(stage):
    table = stage.table(
        "id int PRIMARY KEY, b boolean, n numeric(9, 3), f float8, t text, j jsonb, a int[], ts timestamptz, u uuid,"
        " x bytea, i interval, d date"
    )
    stage.write(
        f"INSERT INTO {table} VALUES (1, true, 1.5, 0.1, E'tab\\t \\\\ é', '{{\"a\": [1, null]}}', '{{1,NULL,3}}',"
        " '2024-02-29 12:00:00.123456+00', '00000000-0000-0000-0000-00000000000a', '\\x00ff', '1 mon 2 days 03:04:05',"
        " '2024-02-29'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        f"INSERT INTO {table} (id) VALUES (3)",
    )
    with stage.client() as client:
        whole = rows(client.query(f"SELECT * FROM {table} ORDER BY id"))
        held = Subscribed(client, f"SELECT * FROM {table}")
        assert sorted(held.rows) == whole
        stage.write(f"DELETE FROM {table} WHERE id < 3")
        message = held.next()
        assert (message.update, sorted(message.rows)) == (Update.DELETE, whole[:2]), "whole old rows"


def test_v36_v38_v39_errors_in_the_documents_words_and_nothing_after_them(stage, role):
    table = stage.table("id int PRIMARY KEY")
    with stage.client(user=role, password=role) as client:
        told = [
            refused(client, sql) for sql in (f"SELECT * FROM {table}", "SELECT * FROM gone", f"DELETE FROM {table}")
        ]
        assert [message.message for message in told] == [
            f"Execution error: permission denied for table '{table}'",
            "Execution error: table 'gone' does not exist",
            "Only SELECT queries can be subscribed to",
        ]
        assert {message.subscription.version for message in told} == {4} and len({m.subscription for m in told}) == 3
        stage.write(f"GRANT SELECT ON {table} TO {role}")
        held = Subscribed(client, f"SELECT * FROM {table}")
        stage.write(f"INSERT INTO {table} VALUES (1)")
        held.until([(b"1",)])
        stage.write(f"DROP TABLE {table}")
        assert client.live() == Refused(held.id, f"Subscription invalidated: table '{table}' was dropped")


def test_v39_v54_who_loses_the_right_to_read_is_told_so_and_nothing_more(stage, role):
    """Decision 21."""
    table = stage.table("id int PRIMARY KEY")
    stage.write(f"GRANT SELECT ON {table} TO {role}")
    with stage.client(user=role, password=role) as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        stage.write(f"REVOKE SELECT ON {table} FROM {role}")
        message = client.live(90)
        assert isinstance(message, Refused) and message.subscription == held.id
        assert "permission denied" in message.message
        stage.write(f"INSERT INTO {table} VALUES (1)")
        assert isinstance(refused(client, f"SELECT * FROM {table}"), Refused)


def test_v54_nobody_sees_rows_or_columns_that_postgres_hides_from_him(stage, role):
    """Decision 20: not a row, inserted, updated or deleted, that his policies hide; not a column without a grant."""
    table = stage.table("id int PRIMARY KEY, owner text, secret text")
    stage.write(
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY own ON {table} USING (owner = current_user)",
        f"GRANT SELECT (id, owner) ON {table} TO {role}",
        f"INSERT INTO {table} VALUES (1, '{role}', 's'), (2, 'somebody else', 's')",
    )
    mine = role.encode()
    with stage.client(user=role, password=role) as client:
        for sql in (f"SELECT * FROM {table}", f"SELECT id FROM {table} WHERE secret = 's'"):
            assert refused(client, sql).message == f"Execution error: permission denied for table '{table}'"
        held = Subscribed(client, f"SELECT id, owner FROM {table}")
        assert held.rows == [(b"1", mine)]
        stage.write(f"INSERT INTO {table} VALUES (3, 'somebody else', 's')")
        stage.write(f"DELETE FROM {table} WHERE id = 2")
        stage.write(f"UPDATE {table} SET owner = '{role}' WHERE id = 3")
        assert held.next() == Data(held.id, Update.INSERT, ((b"3", mine),))
        stage.write(f"UPDATE {table} SET owner = 'somebody else' WHERE id = 1")
        assert held.next() == Data(held.id, Update.DELETE, ((b"1", mine),))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {0} VALUES (9, 9)",
        "UPDATE {0} SET n = 9",
        "DELETE FROM {0}",
        "TRUNCATE {0}",
        "DROP TABLE {0}",
        "WITH w AS (UPDATE {0} SET n = 9 RETURNING *) SELECT * FROM w",
        "SELECT * INTO {0}_copy FROM {0}",
        "SELECT * FROM {0} FOR UPDATE",
        "CREATE TABLE {0}_copy AS SELECT * FROM {0}",
        "EXPLAIN ANALYZE DELETE FROM {0}",
        "DO $$BEGIN DELETE FROM {0}; END$$",
        "MERGE INTO {0} USING {0} s ON false WHEN NOT MATCHED THEN INSERT VALUES (9, 9)",
        "SELECT setval('{0}_numbers', 9)",
        "SELECT 1; DELETE FROM {0}",
    ],
)
def test_v41_what_is_no_select_is_never_executed(stage, numbered, statement):
    before = stage.read(f"SELECT * FROM {numbered}")
    with stage.client() as client:
        assert isinstance(refused(client, statement.format(numbered)), Refused)
    assert stage.read(f"SELECT * FROM {numbered}") == before
    assert stage.read(f"SELECT last_value, is_called FROM {numbered}_numbers") == [(b"1", b"False")]
    assert stage.read(f"SELECT to_regclass('{numbered}_copy')") == [(None,)]


def test_v43_v50_null_goes_both_ways_in_part(stage):
    table = stage.table("id int PRIMARY KEY, a text, b text, c text")
    stage.write(f"INSERT INTO {table} VALUES (1, 'a', NULL, 'c')")
    with stage.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        stage.write(f"UPDATE {table} SET a = NULL, b = ''")
        assert held.next() == PartialData(held.id, (PartialRow(4, {0: b"1", 1: None, 2: b""}),))
        assert held.rows == [(b"1", None, b"", b"c")]


def test_v45_without_a_certain_key_nothing_goes_in_part(stage):
    """Errata 2.1, points 8 and 9."""
    table = stage.table("a int, b int, c text, d text, PRIMARY KEY (a, b)")
    stage.write(f"INSERT INTO {table} VALUES (1, 1, 'c', 'd'), (1, 2, 'c', 'd')")
    with stage.client() as client:
        part = Subscribed(client, f"SELECT a, c, d, 1 FROM {table}")
        stage.write(f"UPDATE {table} SET c = 'x' WHERE b = 1")
        part.until(stage.read(f"SELECT a, c, d, 1 FROM {table}"))
        assert [kind(message) for message in part.messages] == [Update.DELETE, Update.INSERT]


def test_v60_the_gateway_counts_under_the_documents_names(stage):
    table = stage.table("id int PRIMARY KEY, a text, b text, c text")
    before = stage.metrics()
    with stage.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        for change in (
            f"INSERT INTO {table} VALUES (1, 'a', 'b', 'c')",
            f"UPDATE {table} SET a = 'x'",
            f"UPDATE {table} SET a = 'y', b = 'y', c = 'y'",
            f"DELETE FROM {table}",
        ):
            stage.write(change)
            held.next()
    after = stage.metrics()
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
