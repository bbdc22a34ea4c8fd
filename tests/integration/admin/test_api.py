"""The API behind the administrators' page: who may, what it tells, and that it tells what is so."""

import hashlib
import json

import pytest

from services.gateway.inbound.http_port.admin import FOLDER, POLICY
from tests.fixtures.http_port import ask
from tests.fixtures.waiting import wait_until

PATHS = ("overview", "queries", "subscriptions", "tables", "stream", "subscriptions/sub_0000000000000000")
# From the packages of npm: htm 3.1.1 (preact/standalone.module.js, with Preact in it), uplot 1.6.32 (dist).
VENDORED = {
    "preact-htm.js": "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7",
    "uplot.js": "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE-htm": "740725f7252e750af735d0028cc534970772f513331e9f68150fede8fb3ce00f",
    "LICENSE-preact": "1fe6958409c8c257a70c587a18b6f7f412b179b456630790d30b2ec9a8e4b7d4",
    "LICENSE-uplot": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


def test_the_vendored_libraries_are_those_that_were_read():
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (FOLDER / "vendor").iterdir()}
    assert found == VENDORED


def test_no_script_of_the_page_keeps_credentials_or_writes_html():
    for path in FOLDER.glob("*.js"):
        text = path.read_text()
        assert not any(
            word in text for word in ("localStorage", "sessionStorage", "document.cookie", "innerHTML", "eval(")
        )


@pytest.mark.parametrize("path", PATHS)
def test_only_operators_are_answered(house, path):
    """S43, decision 19: a service token may use the CDC door and not this one."""
    full = f"/api/v1/admin/{path}"
    assert ask(house.door, full).status == 401
    for role in ("service", "user"):
        answer = house.caller(role).get(full)
        assert (answer.status, answer.code) == (403, "forbidden")


@pytest.mark.parametrize("path", ("/admin", "/admin/", "/admin/app.js", "/admin/vendor/uplot.css"))
def test_the_page_is_sent_under_a_strict_policy(house, path):
    answer = ask(house.door, path)
    assert answer.status == 200
    assert answer.headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY and POLICY.startswith("default-src 'none'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ask(house.door, path, headers={"If-None-Match": answer.headers["etag"]}).status == 304


@pytest.mark.parametrize(
    "path", ("/admin/../app.py", "/admin/%2e%2e/admin.py", "/admin//etc/passwd", "/admin/__init__.py", "/admin/x")
)
def test_nothing_but_the_page_s_files_is_sent(house, path):
    assert ask(house.door, path).status == 404


def test_every_service_says_how_it_is_and_the_road_is_known(house):
    wanted = dict.fromkeys(("capture", "fanout", "gateway", "recompute", "registry"), "ready")

    def is_known(shown):
        healths = {one["service"]: one["health"] for one in shown["services"]}
        return healths == wanted and all(hop["lag"] is not None for hop in shown["hops"])

    wait_until(lambda: is_known(house.overview()), house.overview)
    shown = house.overview()
    assert [(hop["from"], hop["to"]) for hop in shown["hops"]] == [
        ("PostgreSQL", "capture"),
        ("capture", "recompute"),
        ("recompute", "fanout"),
        ("fanout", "gateway"),
        ("capture", "gateway"),
    ]
    assert shown["database"] == house.database


def test_a_service_that_is_killed_is_silent_and_one_that_ends_is_gone(house):
    def health():
        return [one["health"] for one in house.overview()["services"] if one["service"] == "fanout"]

    house.stack.kill("fanout")
    wait_until(lambda: health() == ["silent"], health)
    house.stack.start("fanout")
    wait_until(lambda: sorted(health()) == ["ready", "silent"], health)


def test_a_live_query_shows_its_strategy_and_why_not_a_cheaper_one(house):
    table = house.table("watched")
    house.insert(table, 5)
    queries = {}
    with house.stack.live() as client:
        client.subscribe(f"SELECT count(*) FROM {table}")

        def shown():
            found = house.caller().get("/api/v1/admin/queries").body["queries"]
            queries.update({one["sql"]: one for one in found})
            return any(table in sql and one["rows"] == one["subscribers_here"] == 1 for sql, one in queries.items())

        wait_until(shown, lambda: queries)
        one = next(one for sql, one in queries.items() if table in sql)
        assert one["strategy"] not in (None, "row-local")
        assert one["why_not"]["row-local"]
        assert (one["subscribers_here"], one["error"], one["tables"]) == (1, None, [f"public.{table}"])
        rows = house.caller().get("/api/v1/admin/subscriptions?door=binary").body["subscriptions"]
        assert [(row["door"], row["state"], row["of"]) for row in rows] == [("binary", "healthy", one["query_id"])]
        house.insert(table, 1)
        wait_until(lambda: shown() and queries[one["sql"]]["latency_ms"] is not None, lambda: queries)


def test_tables_show_identity_cost_and_replica(house):
    table = house.table("costly", full=True)
    house.sql(f"INSERT INTO {table} SELECT i, repeat('x', 400) FROM generate_series(1, 500) i")
    house.sql(f"ANALYZE {table}")

    def shown():
        found = house.caller().get("/api/v1/admin/tables").body["tables"]
        return next((one for one in found if one["name"] == table and one["update_cost"]), None)

    one = wait_until(shown, "the table is shown with its cost")
    assert (one["identity"], one["is_captured"], one["rows"]) == ("full", True, 500)
    assert 1.5 < one["update_cost"] < 2.5


def test_subscriptions_are_paged_searched_and_counted_by_state(house):
    table = house.table("paged")
    ids = house.subscribe(table, 7)
    house.caller().result("cdc.pause", sub_id=ids[0])

    def asked(query):
        return house.caller().get(f"/api/v1/admin/subscriptions?search={table}&{query}").body

    first = wait_until(lambda: (found := asked("limit=3"))["found"] == 7 and found, lambda: asked(""))
    rest = asked("limit=500&offset=3")
    assert {row["id"] for row in first["subscriptions"] + rest["subscriptions"]} == set(ids)
    assert first["subscriptions"][0]["id"] == ids[0]
    assert (first["by_state"]["paused"], first["by_state"]["healthy"]) == (1, 6)
    assert [row["id"] for row in asked("state=paused")["subscriptions"]] == [ids[0]]
    for wrong in ("limit=501", "limit=0", "offset=-1", "state=odd", "door=odd"):
        answer = house.caller().get(f"/api/v1/admin/subscriptions?{wrong}")
        assert (answer.status, answer.code) == (400, "invalid_request")


def test_the_stream_tells_one_subscription_until_it_is_closed(house):
    table = house.table("streamed")
    caller = house.caller()
    sub_id = caller.result("cdc.subscribe_table", db=house.database, table=table)["sub_id"]
    from tests.fixtures.cdc import Sse

    with Sse(house.door, f"/api/v1/admin/stream?sub_id={sub_id}", caller.headers) as stream:
        assert [event.name for event in stream.take(2)] == ["overview", "subscription"]
        house.insert(table, 4)
        lags = []
        wait_until(
            lambda: (
                (event := stream.next()).name == "subscription"
                and (lags.append(event.data["subscription"]["lag"]) or lags[-1] >= 4)
            ),
            lambda: lags,
        )
        caller.result("cdc.close", sub_id=sub_id)
        last = []
        wait_until(lambda: (event := stream.next()) is None or last.append(event), "the stream ends")
        assert json.dumps(last[-1].data).count("not_found") == 1
    assert caller.get(f"/api/v1/admin/stream?sub_id={sub_id}").status == 404
