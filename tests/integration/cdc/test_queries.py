"""Prepared queries, their ETags, and subscriptions of them."""

import re

import pytest

from tests.conformance.skeindb import vector


@pytest.fixture
def user(cdc):
    return cdc.user(cdc.role("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}"))


def readable(cdc, user, columns="id int PRIMARY KEY, n int", **more):
    table = cdc.table(columns, **more)
    cdc.sql(f"GRANT SELECT ON {table} TO PUBLIC")
    return table


def prepared(user, sql):
    return user.result("query.prepare", sql=sql)


def subscribed(user, query, **params):
    return user.result("cdc.subscribe_query", query_id=query["query_id"], format="plain_json", **params)


def polled(user, sub):
    return user.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])["events"]


def test_s17_an_invalidation_keeps_the_change_behind_it(cdc, user):
    """S5, S6; the vectors sk.subscribe_query and sk.query.invalidate."""
    table = readable(cdc, user)
    query = prepared(user, f"SELECT sum(n) FROM {table}")
    assert re.fullmatch(r"q_[0-9a-f]{16}", query["query_id"])
    assert query["tables"] == [table]
    sub = subscribed(user, query, include={"after": True, "changed_keys": True})
    assert set(sub) == set(vector("sk.subscribe_query")["response_result"])
    cdc.sql(f"INSERT INTO {table} VALUES (1, 5), (2, 6)")
    events = polled(user, sub)
    assert [(event["op"], event["query_id"], event["table"], event["pk"]) for event in events] == [
        ("invalidate", query["query_id"], table, [1]),
        ("invalidate", query["query_id"], table, [2]),
    ]
    assert events[0]["after"] == {"id": 1, "n": 5}
    assert events[0]["changed_keys"] == [[1]]
    assert events[0]["etag"] == events[1]["etag"] != query["etag"]
    assert user.get(f"/api/v1/q/{query['query_id']}").headers["etag"] == events[0]["etag"]
    assert user.refusal("cdc.subscribe_query", query_id="q_nope")[0] == "not_found"


def test_filters_look_at_the_change_behind_an_invalidation(cdc, user):
    """S13, S17."""
    table = readable(cdc, user, "id int PRIMARY KEY, n int, note text", full=True)
    query = prepared(user, f"SELECT * FROM {table}")
    deletes = subscribed(user, query, ops=["delete"])
    one = subscribed(user, query, pk=[{"t": "i64", "v": 1}])
    ranged = subscribed(user, query, pk_range={"lower_bound": {"t": "i64", "v": 2}})
    noted = subscribed(user, query, columns=["note"], ops=["update"])
    cdc.sql(f"INSERT INTO {table} VALUES (1, 0, 'a'), (2, 0, 'a')")
    cdc.sql(f"UPDATE {table} SET n = 1")
    cdc.sql(f"UPDATE {table} SET note = 'b' WHERE id = 1")
    cdc.sql(f"DELETE FROM {table} WHERE id = 2")
    assert [event["pk"] for event in polled(user, deletes)] == [[2]]
    assert [event["pk"] for event in polled(user, one)] == [[1]] * 3
    assert [event["pk"] for event in polled(user, ranged)] == [[2]] * 3
    assert [event["pk"] for event in polled(user, noted)] == [[1]]


def test_query_dependencies_expand_views_set_operation_branches_and_cte_definitions(cdc, user):
    """S18, S44: by PostgreSQL's own parse; the CTE's name is no table, though a table has it."""
    tables = [readable(cdc, user) for _ in range(6)]
    view = f"v_{tables[0]}"
    cdc.sql(f"CREATE VIEW {view} AS SELECT id FROM {tables[0]}; CREATE VIEW {view}_2 AS SELECT * FROM {view}")
    cdc.sql(f"GRANT SELECT ON {view}, {view}_2 TO PUBLIC")
    sql = (
        f"WITH {tables[5]} AS (SELECT id FROM {tables[1]}) "
        f"SELECT id FROM {view}_2 UNION ALL SELECT id FROM {tables[5]} "
        f"UNION SELECT id FROM {tables[2]} WHERE EXISTS (SELECT 1 FROM {tables[3]})"
    )
    query = prepared(user, sql)
    assert query["tables"] == sorted(tables[:4])
    sub = subscribed(user, query)
    for table in tables:
        cdc.sql(f"INSERT INTO {table} VALUES (1, 1)")
    assert [event["table"] for event in polled(user, sub)] == tables[:4]
    # Found anew: the view now reads another table.
    cdc.sql(f"CREATE OR REPLACE VIEW {view} AS SELECT id FROM {tables[4]}")
    cdc.sql(f"INSERT INTO {tables[4]} VALUES (2, 2)")
    assert [event["table"] for event in polled(user, sub)][-1] == tables[4]


def test_a_result_has_an_etag_that_changes_exactly_when_it_does(cdc, user):
    """The vector sk.test.etag."""
    table = readable(cdc, user)
    query = prepared(user, f"SELECT id, n FROM {table} WHERE n > 10 ORDER BY id")
    path = f"/api/v1/q/{query['query_id']}"
    first = user.get(path)
    assert (first.status, first.headers["etag"]) == (200, query["etag"])
    again = user.get(path, **{"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])
    cdc.sql(f"INSERT INTO {table} VALUES (1, 5)")
    assert user.get(path, **{"If-None-Match": first.headers["etag"]}).status == 304
    cdc.sql(f"INSERT INTO {table} VALUES (2, 50)")
    other = user.get(path, **{"If-None-Match": first.headers["etag"]})
    assert (other.status, other.headers["etag"] != first.headers["etag"]) == (200, True)
    assert other.body["data"] == {"columns": ["id", "n"], "rows": [[{"t": "i64", "v": 2}, {"t": "i64", "v": 50}]]}
    cdc.sql(f"DELETE FROM {table} WHERE id = 2")
    assert user.get(path).headers["etag"] == first.headers["etag"]


def test_args_belong_to_the_subscription(cdc, user):
    """S5."""
    table = readable(cdc, user)
    query = prepared(user, f"SELECT count(*) FROM {table} WHERE n = $1")
    one = [{"t": "i64", "v": 1}]
    sub = subscribed(user, query, args=one)
    cdc.sql(f"INSERT INTO {table} VALUES (1, 1)")
    found = user.get(f"/api/v1/q/{query['query_id']}?args=%5B%7B%22t%22%3A%22i64%22%2C%22v%22%3A1%7D%5D")
    assert found.body["data"]["rows"] == [[{"t": "i64", "v": 1}]]
    assert [event["etag"] for event in polled(user, sub)] == [found.headers["etag"]]
    for wrong in ([], one * 2, [{"t": "str", "v": "x"}]):
        refused = user.refusal("cdc.subscribe_query", query_id=query["query_id"], args=wrong)
        assert refused[0] == "invalid_request"
    assert user.get(f"/api/v1/q/{query['query_id']}?args=x").status == 400


def test_queries_are_their_owner_s(cdc, user):
    table = readable(cdc, user)
    query = prepared(user, f"SELECT * FROM {table}")["query_id"]
    other = cdc.user(cdc.role(f"GRANT SELECT ON {table} TO {{}}"))
    assert other.get(f"/api/v1/q/{query}").status == 404
    assert other.refusal("cdc.subscribe_query", query_id=query)[0] == "not_found"
    assert other.refusal("query.drop", query_id=query)[0] == "not_found"
    assert user.result("query.drop", query_id=query) == {"query_id": query, "dropped": True}
    assert user.get(f"/api/v1/q/{query}").status == 404
    assert cdc.service().refusal("query.prepare", sql="SELECT 1")[0] == "forbidden"


def test_a_query_over_a_table_that_the_role_may_not_read_whole_is_refused(cdc, user):
    """Decision 19: invalidations carry keys and rows."""
    table = cdc.table("id int PRIMARY KEY, secret text")
    view = f"v_{table}"
    cdc.sql(f"CREATE VIEW {view} AS SELECT id FROM {table}; GRANT SELECT ON {view} TO PUBLIC")
    query = prepared(user, f"SELECT * FROM {view}")
    assert user.refusal("cdc.subscribe_query", query_id=query["query_id"])[0] == "forbidden"
    assert user.refusal("query.prepare", sql=f"SELECT * FROM {table}")[0] == "forbidden"


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM pg_class",
        "SELECT 1; SELECT 2",
        "SELEC",
        "",
        "SELECT pg_sleep(1)",
        "WITH x AS (DELETE FROM pg_class RETURNING 1) SELECT * FROM x",
        "SELECT * FROM nowhere",
    ],
    ids=str,
)
def test_what_is_no_select_is_never_run(user, sql):
    assert user.refusal("query.prepare", sql=sql)[0] == "invalid_request"


def test_without_order_by_another_order_of_the_rows_is_the_same_result(cdc, user):
    """Decision 3, finding 14: an UPDATE that changes nothing puts the row elsewhere."""
    table = readable(cdc, user)
    cdc.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    query, ordered = (prepared(user, f"SELECT * FROM {table} {order}") for order in ("", "ORDER BY ctid"))
    first = user.get(f"/api/v1/q/{query['query_id']}")
    cdc.sql(f"UPDATE {table} SET n = n WHERE id = 1")
    again = user.get(f"/api/v1/q/{query['query_id']}")
    assert again.body["data"]["rows"] == first.body["data"]["rows"][::-1]
    assert again.headers["etag"] == first.headers["etag"] == query["etag"]
    assert user.get(f"/api/v1/q/{ordered['query_id']}").headers["etag"] != ordered["etag"]


def test_a_subscribed_query_whose_table_is_gone_is_not_found(cdc, user):
    """Finding 20."""
    table = readable(cdc, user)
    query = prepared(user, f"SELECT * FROM {table}")
    sub = subscribed(user, query)
    cdc.sql(f"DROP TABLE {table}")
    assert user.refusal("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])[0] == "not_found"


def test_sql_that_is_nested_too_deep_is_told_in_our_words(user):
    """Finding 20."""
    code, message = user.refusal("query.prepare", sql="SELECT " + "(" * 30_000 + "1" + ")" * 30_000)
    assert (code, "nested" in message) == ("invalid_request", True)
