"""What one caller may send, keep and have under way; more is refused with a code, and others do not notice."""

import json
import threading
from urllib.parse import quote

import pytest
from websockets.exceptions import InvalidStatus

from tests.fixtures.cdc import RPC
from tests.fixtures.http_port import ask

CROWD = 16


def nested(depth):
    return "[" * depth + "]" * depth


def reader(cdc, columns="id int PRIMARY KEY, n int"):
    table = cdc.table(columns)
    return table, cdc.user(cdc.role(f"GRANT SELECT ON {table} TO {{}}"))


def prepared(user, sql):
    return user.result("query.prepare", sql=sql)["query_id"]


@pytest.fixture(scope="module")
def tight(cdc):
    """The number of a gateway that keeps two of each for an owner."""
    cdc.start_gateway(TIDEWIRE_CDC_SUBSCRIPTIONS_PER_OWNER="2", TIDEWIRE_CDC_QUERIES_PER_OWNER="2")
    return len(cdc.doors) - 1


@pytest.mark.parametrize("depth", [66, 254, 900])
def test_json_that_is_nested_too_deep_is_refused(cdc, depth):
    """Finding 12: it was read, and could not be written."""
    table, user = reader(cdc)
    query = prepared(user, f"SELECT * FROM {table} WHERE id = $1")
    literal, of_table = [{"t": "json", "v": "DEEP"}], {"db": cdc.database, "table": table}
    for method, params in (
        ("cdc.subscribe_query", {"query_id": query, "args": "DEEP"}),
        ("cdc.subscribe_query", {"query_id": query, "args": literal}),
        ("cdc.subscribe_table", {**of_table, "pk": literal}),
        ("cdc.subscribe_table", {**of_table, "ops": "DEEP"}),
        ("cdc.subscribe_table", {**of_table, "format": "DEEP"}),
    ):
        call = json.dumps({"skeinql": "1.0", "id": 7, "method": method, "params": params})
        body = call.replace('"DEEP"', nested(depth))
        answer = ask(user.port, RPC, method="POST", headers=user.headers, body=body)
        assert (answer.status, answer.body["id"]) == (200, 7), answer
        assert answer.body["error"]["code"] == "invalid_request"
    args = quote(json.dumps(literal).replace('"DEEP"', nested(depth)))
    sub = user.result("cdc.subscribe_table", db=cdc.database, table=table)
    for path in (f"/api/v1/q/{query}?args=", f"/api/v1/cdc/snapshot/{sub['sub_id']}?from_offset=1&after="):
        assert user.get(path + args).status == 400


def test_offsets_of_thousands_of_digits_are_refused(cdc, service):
    """Finding 13."""
    digits = "9" * 5000
    table = cdc.table("id int PRIMARY KEY")
    sub_id = service.result("cdc.subscribe_table", db=cdc.database, table=table)["sub_id"]
    path = f"/api/v1/cdc/sse/{sub_id}"
    assert service.get(path, **{"Last-Event-ID": digits}).status == 400
    assert service.get(f"{path}?from_offset={digits}").status in (400, 422)
    with pytest.raises(InvalidStatus) as refused:
        service.ws(sub_id, f"?from_offset={digits}")
    assert refused.value.response.status_code == 400


def test_ids_are_texts_or_numbers(service):
    """S2, finding 20."""
    for call_id in (1.5, "a", 0, -3):
        answer = service.send({"skeinql": "1.0", "id": call_id, "method": "system.ping"})
        assert (answer.body["id"], answer.body["ok"]) == (call_id, True)


def test_an_owner_has_so_many_subscriptions(cdc, tight):
    """Finding 17; those that are closed count no longer, and those of others never."""
    table = cdc.table("id int PRIMARY KEY")
    role = cdc.role(f"GRANT SELECT ON {table} TO {{}}")
    user, other = cdc.user(role, tight), cdc.user(cdc.role(f"GRANT SELECT ON {table} TO {{}}"), tight)
    params = {"db": cdc.database, "table": table}
    first, _ = (user.result("cdc.subscribe_table", **params)["sub_id"] for _ in range(2))
    assert user.refusal("cdc.subscribe_table", **params)[0] == "conflict"
    other.result("cdc.subscribe_table", **params)
    # By whichever gateway it is closed.
    cdc.user(role).result("cdc.close", sub_id=first)
    user.result("cdc.subscribe_table", **params)
    assert user.refusal("cdc.subscribe_table", **params)[0] == "conflict"


def test_an_owner_has_so_many_prepared_queries(cdc, tight):
    """Finding 17."""
    user = cdc.user(cdc.role(), tight)
    first, _ = (prepared(user, "SELECT 1") for _ in range(2))
    assert user.refusal("query.prepare", sql="SELECT 1")[0] == "conflict"
    user.result("query.drop", query_id=first)
    prepared(user, "SELECT 1")


def test_a_subscription_has_a_size(cdc):
    """Finding 17."""
    table, user = reader(cdc, "id int PRIMARY KEY, t text")
    query = prepared(user, f"SELECT * FROM {table} WHERE t = $1")
    for size, code in ((8_000, None), (20_000, "invalid_request"), (900_000, "invalid_request")):
        args = [{"t": "str", "v": "x" * size}]
        answer = user.call("cdc.subscribe_query", query_id=query, args=args)
        assert answer.get("error", {}).get("code") == code, answer
    keys = {"db": cdc.database, "table": table, "pk": [{"t": "str", "v": "1" * 20_000}]}
    assert user.refusal("cdc.subscribe_table", **keys)[0] == "invalid_request"


def test_columns_that_no_table_of_a_query_has_are_refused(cdc):
    """Finding 17."""
    table, user = reader(cdc)
    other = cdc.table("id int PRIMARY KEY, m int")
    cdc.sql(f"GRANT SELECT ON {other} TO PUBLIC")
    query = prepared(user, f"SELECT * FROM {table} JOIN {other} USING (id)")
    params = {"query_id": query, "ops": ["insert"]}
    code, message = user.refusal("cdc.subscribe_query", columns=["n", "nothing"], **params)
    assert (code, message) == ("invalid_request", "unknown cdc column filter nothing")
    user.result("cdc.subscribe_query", columns=["n", "m"], **params)


def test_queries_of_one_role_do_not_hold_up_those_of_another(cdc):
    """Finding 11: a crowd of queries, each of which waits for a lock until it may not any more."""
    table, hostile = reader(cdc)
    other, user = reader(cdc)
    crowd = prepared(hostile, f"SELECT * FROM {table} WHERE id = $1")
    query = prepared(user, f"SELECT * FROM {other}")
    answered = []

    def one(number):
        args = quote(json.dumps([{"t": "i64", "v": number}]))
        answered.append(hostile.get(f"/api/v1/q/{crowd}?args={args}").status)

    with cdc.captured.connect() as connection:
        connection.execute("BEGIN")
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        threads = [threading.Thread(target=one, args=[number]) for number in range(CROWD)]
        for thread in threads:
            thread.start()
        # The first of them are under way, the others wait.
        while len(answered) < 1:
            assert any(thread.is_alive() for thread in threads)
        assert user.get(f"/api/v1/q/{query}").status == 200
        unanswered = CROWD - len(answered)
        for thread in threads:
            thread.join()
    assert answered == [504] * CROWD
    assert unanswered >= CROWD // 2
