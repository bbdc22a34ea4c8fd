"""cdc.subscribe_table, poll, ack, pause, resume, close over HTTP, on a real database and its capture."""

import re
import time

import pytest

from tests.conformance.skeindb import vector


def subscribed(cdc, service, table, **params):
    return service.result("cdc.subscribe_table", db=cdc.database, table=table, **params)


def polled(service, sub, offset=None, **params):
    from_offset = sub["offset"] if offset is None else offset
    return service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=from_offset, **params)


def int_key(value):
    return [{"t": "i64", "v": value}]


def test_s1_a_write_is_in_the_poll_right_after_it(cdc, service):
    """S6, S16, S19, S20, decision 28."""
    table = cdc.table("id int PRIMARY KEY, name text")
    sub = subscribed(cdc, service, table)
    assert set(sub) == set(vector("sk.subscribe_table")["response_result"])
    assert re.fullmatch(r"sub_[0-9a-f]{16}", sub["sub_id"])
    assert sub["sse_url"] == f"/api/v1/cdc/sse/{sub['sub_id']}"
    assert sub["ws_url"] == f"/api/v1/cdc/ws/{sub['sub_id']}"
    for number in range(20):
        cdc.sql(f"INSERT INTO {table} VALUES ({number}, 'Ada')")
        found = polled(service, sub)
        assert len(found["events"]) == number + 1
    shape = vector("sk.poll.ok")["response_result"]
    assert set(found) == set(shape)
    assert set(found["backpressure"]) == set(shape["backpressure"])
    event = found["events"][0]
    assert set(event) == set(shape["events"][0])
    assert (event["op"], event["table"], event["db"], event["pk"]) == ("insert", table, cdc.database, int_key(0))
    assert event["lsn"] == event["seq"] > sub["offset"]
    assert abs(event["commit_ts_ms"] / 1000 - time.time()) < 600


def test_ordering_preserved_per_stream(cdc, service):
    """S26, S44: several transactions and tables, in commit order."""
    table, other = cdc.table("id int PRIMARY KEY, n int"), cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table, format="plain_json")
    cdc.sql(f"INSERT INTO {table} SELECT i, 0 FROM generate_series(1, 50) i")
    cdc.sql(f"INSERT INTO {other} SELECT generate_series(1, 50)")
    cdc.sql(f"UPDATE {table} SET n = 1 WHERE id <= 25; DELETE FROM {table} WHERE id > 25")
    events = polled(service, sub)["events"]
    assert [event["op"] for event in events] == ["insert"] * 50 + ["update"] * 25 + ["delete"] * 25
    assert [event["pk"] for event in events[:50]] == [[number] for number in range(1, 51)]
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})


def test_offsets_monotonic(cdc, service):
    """S26, S44: pages by next_offset have each event once; what does not match is passed (decision 9)."""
    table, other = cdc.table("id int PRIMARY KEY"), cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table, format="plain_json")
    for number in range(30):
        cdc.sql(f"INSERT INTO {table} VALUES ({number}); INSERT INTO {other} VALUES ({number})")
    offset, seen = sub["offset"], []
    while True:
        page = polled(service, sub, offset, limit=7)
        assert page["next_offset"] >= offset
        offset = page["next_offset"]
        if not page["events"]:
            break
        assert len(page["events"]) <= 7
        seen += [event["pk"][0] for event in page["events"]]
    assert seen == list(range(30))
    assert offset == page["latest_offset"]


def test_s21_acknowledged_offsets_suppress_redelivery_for_older_polls(cdc, service):
    """S22, S23, S44; the vectors sk.test.ackclose, sk.ack, sk.close."""
    table = cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table, format="plain_json")
    cdc.sql(f"INSERT INTO {table} VALUES (1)")
    first = polled(service, sub)
    assert [event["pk"] for event in first["events"]] == [[1]]
    acked = service.result("cdc.ack", sub_id=sub["sub_id"], offset=first["next_offset"])
    assert acked == {"sub_id": sub["sub_id"], "acked_offset": first["next_offset"]}
    cdc.sql(f"INSERT INTO {table} VALUES (2)")
    assert [event["pk"] for event in polled(service, sub)["events"]] == [[2]]
    # Never lower, and never beyond what there is.
    lower = service.result("cdc.ack", sub_id=sub["sub_id"], offset=0)
    assert lower["acked_offset"] == first["next_offset"]
    beyond = service.result("cdc.ack", sub_id=sub["sub_id"], offset=10**12)
    assert beyond["acked_offset"] == polled(service, sub)["latest_offset"]
    closed = service.result("cdc.close", sub_id=sub["sub_id"])
    assert closed == {"sub_id": sub["sub_id"], "closed": True}


def test_closed_subscriptions_return_not_found(cdc, service):
    """S23, S44."""
    sub = subscribed(cdc, service, cdc.table("id int PRIMARY KEY"))["sub_id"]
    service.result("cdc.close", sub_id=sub)
    for method, more in (
        ("cdc.poll", {"from_offset": 0}),
        ("cdc.ack", {"offset": 1}),
        ("cdc.pause", {}),
        ("cdc.resume", {}),
        ("cdc.close", {}),
    ):
        assert service.refusal(method, sub_id=sub, **more)[0] == "not_found"


def test_s24_a_pause_is_kept_and_s25_holds_events_back(cdc, service):
    """The vector sk.pause; neither acks."""
    table = cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table, format="plain_json")
    paused = service.result("cdc.pause", sub_id=sub["sub_id"])
    assert set(paused) == set(vector("sk.pause")["response_result"])
    assert (paused["paused"], paused["acked_offset"], paused["backpressure"]["state"]) == (
        True,
        sub["offset"],
        "paused",
    )
    cdc.sql(f"INSERT INTO {table} VALUES (1)")
    held = polled(service, sub)
    assert (held["events"], held["next_offset"], held["backpressure"]["paused"]) == ([], sub["offset"], True)
    resumed = service.result("cdc.resume", sub_id=sub["sub_id"])
    assert (resumed["paused"], resumed["acked_offset"]) == (False, sub["offset"])
    assert [event["pk"] for event in polled(service, sub)["events"]] == [[1]]


def test_s8_ops(cdc, service):
    """S15; the vector sk.test.ops."""
    table = cdc.table("id int PRIMARY KEY, name text")
    assert service.refusal("cdc.subscribe_table", db=cdc.database, table=table, ops=["merge"])[0] == "invalid_request"
    sub = subscribed(cdc, service, table, ops=["UPDATE"], include={"after": True}, format="plain_json")
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'Ada')")
    cdc.sql(f"UPDATE {table} SET name = 'Grace'")
    cdc.sql(f"DELETE FROM {table}")
    [event] = polled(service, sub)["events"]
    assert (event["op"], event["after"]) == ("update", {"id": 1, "name": "Grace"})
    assert "before" not in event


def test_s9_pk(cdc, service):
    """The vector sk.test.pk."""
    table = cdc.table("id int PRIMARY KEY, n int")
    params = {"db": cdc.database, "table": table}
    assert service.refusal("cdc.subscribe_table", **params, pk=int_key(1) * 2) == (
        "invalid_request",
        "cdc pk filter length 2 does not match primary key width 1",
    )
    keyless = cdc.table("id int")
    assert service.refusal("cdc.subscribe_table", db=cdc.database, table=keyless, pk=int_key(1)) == (
        "invalid_request",
        "cdc pk filter requires a table primary key",
    )
    sub = subscribed(cdc, service, table, pk=[{"t": "u64", "v": 2}], format="plain_json")
    cdc.sql(f"INSERT INTO {table} VALUES (1, 0), (2, 0)")
    cdc.sql(f"UPDATE {table} SET n = 1 WHERE id = 1")
    cdc.sql(f"UPDATE {table} SET n = 1 WHERE id = 2")
    assert [(event["op"], event["pk"]) for event in polled(service, sub)["events"]] == [
        ("insert", [2]),
        ("update", [2]),
    ]


@pytest.mark.parametrize(
    ("type_name", "key", "values"),
    [
        ("numeric", {"t": "dec", "v": "12.34"}, ("12.3400", "12.35")),
        ("uuid", {"t": "uuid", "v": "550E8400-E29B-41D4-A716-446655440000"}, ("550e8400-e29b-41d4-a716-446655440000",)),
        ("timestamptz", {"t": "datetime", "iso": "2026-01-18T13:34:56.5+01:00"}, ("2026-01-18 12:34:56.5+00",)),
        ("bytea", {"t": "bytes", "b64": "AAECAw=="}, ("\\x00010203", "\\x00")),
        ("text", {"t": "str", "v": "häl'lo"}, ("häl'lo", "hallo")),
        ("char(5)", {"t": "str", "v": "ab"}, ("ab", "abc")),
        ("bool", {"t": "bool", "v": True}, ("t", "f")),
        ("float8", {"t": "f64", "v": 0.1}, ("0.1", "0.2")),
    ],
    ids=str,
)
def test_a_key_is_compared_in_its_own_type(cdc, service, type_name, key, values):
    """S9: PostgreSQL reads the literal."""
    table = cdc.table(f"id {type_name} PRIMARY KEY")
    sub = subscribed(cdc, service, table, pk=[key])
    for value in values:
        cdc.sql(f"INSERT INTO {table} VALUES (%s)", value)
    assert len(polled(service, sub)["events"]) == 1


def test_a_literal_that_the_key_s_type_cannot_be_is_refused(cdc, service):
    """S9."""
    table = cdc.table("id int PRIMARY KEY")
    for literal in ({"t": "str", "v": "x"}, {"t": "null"}, {"t": "u64", "v": 2**40}, 5):
        refused = service.refusal("cdc.subscribe_table", db=cdc.database, table=table, pk=[literal])
        assert refused[0] == "invalid_request"


def test_s10_pk_range(cdc, service):
    """The vectors sk.test.pk_range and sk.errors."""
    table = cdc.table("id int PRIMARY KEY, n int")
    params = {"db": cdc.database, "table": table}
    lower, upper = {"t": "u64", "v": 2}, {"t": "u64", "v": 3}
    for wrong, where, words in (
        ({}, table, "cdc pk_range requires at least one bound"),
        ({"lower_bound": upper, "upper_bound": lower}, table, "cdc pk_range lower_bound must be <= upper_bound"),
        ({"lower_bound": lower}, cdc.table("id int"), "cdc pk_range filter requires a table primary key"),
        (
            {"lower_bound": lower},
            cdc.table("a int, b int, PRIMARY KEY (a, b)"),
            "cdc pk_range filter requires a single-column primary key",
        ),
    ):
        refused = service.refusal("cdc.subscribe_table", **{**params, "table": where}, pk_range=wrong)
        assert refused == ("invalid_request", words)
    sub = subscribed(cdc, service, table, pk_range={"lower_bound": lower, "upper_bound": upper}, format="plain_json")
    cdc.sql(f"INSERT INTO {table} SELECT i, 0 FROM generate_series(1, 4) i")
    cdc.sql(f"UPDATE {table} SET n = 1")
    assert [(event["op"], event["pk"]) for event in polled(service, sub)["events"]] == [
        ("insert", [2]),
        ("insert", [3]),
        ("update", [2]),
        ("update", [3]),
    ]


def test_texts_are_ordered_by_a_collation_of_bytes(cdc, service):
    """S10: exact, or refused (test_matching.py)."""
    plain = cdc.table('id text COLLATE "C" PRIMARY KEY')
    bounds = {"lower_bound": {"t": "str", "v": "B"}, "upper_bound": {"t": "str", "v": "b"}}
    sub = subscribed(cdc, service, plain, pk_range=bounds, format="plain_json")
    cdc.sql(f"INSERT INTO {plain} VALUES ('A'), ('B'), ('Z'), ('a'), ('b'), ('c')")
    assert [event["pk"][0] for event in polled(service, sub)["events"]] == ["B", "Z", "a", "b"]


def test_s11_columns(cdc, service):
    """S12; the vector sk.test.columns."""
    table = cdc.table("id int PRIMARY KEY, name text, email text", full=True)
    assert service.refusal("cdc.subscribe_table", db=cdc.database, table=table, columns=["missing"]) == (
        "invalid_request",
        "unknown cdc column filter missing",
    )
    both = {"before": True, "after": True}
    sub = subscribed(cdc, service, table, columns=["name"], ops=["update"], include=both, format="plain_json")
    every = subscribed(cdc, service, table, columns=["name"])
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'Ada', 'a')")
    cdc.sql(f"UPDATE {table} SET email = 'b'")
    cdc.sql(f"UPDATE {table} SET name = 'Grace'")
    cdc.sql(f"DELETE FROM {table}")
    [event] = polled(service, sub)["events"]
    assert (event["before"], event["after"]) == ({"name": "Ada"}, {"name": "Grace"})
    assert [event["op"] for event in polled(service, every)["events"]] == ["insert", "update", "delete"]


def test_old_rows_that_the_log_does_not_have_are_refused_with_what_to_do(cdc, service):
    """S11, S15: exact or not at all."""
    table = cdc.table("id int PRIMARY KEY, name text")
    for wishes in ({"columns": ["name"]}, {"include": {"before": True}}):
        code, message = service.refusal("cdc.subscribe_table", db=cdc.database, table=table, **wishes)
        assert (code, "REPLICA IDENTITY FULL" in message) == ("precondition_failed", True)
    # Inserts have no old row.
    subscribed(cdc, service, table, columns=["name"], ops=["insert"])


def test_s14_formats(cdc, service):
    """S15: each type as a literal and plain."""
    table = cdc.table(
        "id bigint PRIMARY KEY, d numeric(10,4), b bytea, j jsonb, t timestamptz, n text, f float8, x int[]"
    )
    include = {"after": True}
    typed = subscribed(cdc, service, table, include=include)
    plain = subscribed(cdc, service, table, include=include, format="plain_json")
    cdc.sql(
        f"INSERT INTO {table} VALUES (9007199254740993, 12.34, '\\x00010203', '{{\"a\": 1}}', "
        "'2026-01-18 12:34:56.789Z', NULL, 'NaN', '{1,2}')"
    )
    [event] = polled(service, typed)["events"]
    assert event["after"] == {
        "id": {"t": "i64", "v": 9007199254740993},
        "d": {"t": "dec", "v": "12.3400"},
        "b": {"t": "bytes", "b64": "AAECAw=="},
        "j": {"t": "json", "v": {"a": 1}},
        "t": {"t": "datetime", "iso": "2026-01-18T12:34:56.789Z"},
        "n": {"t": "null"},
        "f": {"t": "f64", "v": "NaN"},
        "x": {"t": "str", "v": "{1,2}"},
    }
    [event] = polled(service, plain)["events"]
    assert event["after"] == {
        "id": 9007199254740993,
        "d": "12.3400",
        "b": "AAECAw==",
        "j": {"a": 1},
        "t": "2026-01-18T12:34:56.789Z",
        "n": None,
        "f": "NaN",
        "x": "{1,2}",
    }


def test_tables_by_schema_domains_and_partitions(cdc, service):
    """S4: a name on the search path, or schema.name; partitions are their table's changes."""
    cdc.sql("CREATE SCHEMA IF NOT EXISTS shop; CREATE DOMAIN shop.amount AS int")
    cdc.sql("CREATE TABLE shop.orders (id shop.amount PRIMARY KEY) PARTITION BY RANGE (id)")
    cdc.sql("CREATE TABLE shop.orders_1 PARTITION OF shop.orders FOR VALUES FROM (0) TO (100)")
    sub = subscribed(cdc, service, "shop.orders")
    cdc.sql("INSERT INTO shop.orders VALUES (7)")
    [event] = polled(service, sub)["events"]
    assert (event["table"], event["pk"]) == ("shop.orders_1", int_key(7))
    cdc.sql("CREATE TABLE shop.orders_2 PARTITION OF shop.orders FOR VALUES FROM (100) TO (200)")
    cdc.sql("INSERT INTO shop.orders VALUES (107)")
    assert [each["table"] for each in polled(service, sub)["events"]] == ["shop.orders_1", "shop.orders_2"]


def test_a_truncate_asks_for_the_table_anew(cdc, service):
    """Decision 15: told behind the events before it, cleared by acking past it."""
    table = cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table, format="plain_json")
    cdc.sql(f"INSERT INTO {table} VALUES (1)")
    cdc.sql(f"TRUNCATE {table}")
    cdc.sql(f"INSERT INTO {table} VALUES (2)")
    before = polled(service, sub)
    assert ([event["pk"] for event in before["events"]], before["resnapshot_required"]) == ([[1]], False)
    told = polled(service, sub, before["next_offset"])
    assert (told["events"], told["resnapshot_required"], told["resnapshot_reason"]) == ([], True, "truncated")
    assert told["backpressure"]["state"] == "resnapshot_required"
    service.result("cdc.ack", sub_id=sub["sub_id"], offset=told["resnapshot_from_offset"])
    assert [event["pk"] for event in polled(service, sub)["events"]] == [[2]]


def test_an_added_column_is_in_the_events_after_it(cdc, service):
    """Decision 14; and a no-op UPDATE is an event (decision 16)."""
    table = cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table, include={"after": True}, format="plain_json")
    cdc.sql(f"INSERT INTO {table} VALUES (1)")
    cdc.sql(f"ALTER TABLE {table} ADD COLUMN note text DEFAULT 'new'")
    cdc.sql(f"UPDATE {table} SET note = note")
    first, second = polled(service, sub)["events"]
    assert (first["after"], second["op"], second["after"]) == ({"id": 1}, "update", {"id": 1, "note": "new"})


def test_a_poll_can_wait(cdc, service):
    """Decision 9: at once, unless wait_ms is given."""
    import threading

    table = cdc.table("id int PRIMARY KEY")
    sub = subscribed(cdc, service, table)
    began = time.monotonic()
    assert polled(service, sub, wait_ms=300)["events"] == []
    assert time.monotonic() - began >= 0.3
    writer = threading.Timer(0.3, lambda: cdc.sql(f"INSERT INTO {table} VALUES (1)"))
    writer.start()
    assert len(polled(service, sub, wait_ms=20_000)["events"]) == 1
    writer.join()
    assert service.refusal("cdc.poll", sub_id=sub["sub_id"], from_offset=0, wait_ms=30_001)[0] == "invalid_request"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "sub_id"),
        ({"sub_id": "x"}, "from_offset"),
        ({"sub_id": 5, "from_offset": 0}, "sub_id"),
        ({"sub_id": "x", "from_offset": -1}, "from_offset"),
        ({"sub_id": "x", "from_offset": "1"}, "from_offset"),
        ({"sub_id": "x", "from_offset": 1, "limit": 0}, "limit"),
        ({"sub_id": "x", "from_offset": 1, "limit": 1.5}, "limit"),
    ],
    ids=str,
)
def test_s19_parameters_that_are_wrong_are_named(service, params, field):
    answer = service.call("cdc.poll", **params)
    assert (answer["status"], answer["error"]["code"]) == (200, "invalid_request")
    assert answer["error"]["details"] == {"field": field}


def test_names_that_are_not_there(cdc, service):
    """S3, S4; the vector sk.errors."""
    assert service.refusal("cdc.subscribe_table", db="nodb", table="t") == ("not_found", "database not found: nodb")
    assert service.refusal("cdc.subscribe_table", db=cdc.database, table="nope") == (
        "not_found",
        f"table not found: {cdc.database}.nope",
    )
    assert service.refusal("cdc.poll", sub_id="sub_0000000000000000", from_offset=0)[0] == "not_found"
