"""The envelope of /api/v1/rpc, and what is refused before a method is called."""

import json
import time

import pytest

from tests.conformance.skeindb import vector
from tests.fixtures.cdc import RPC, Caller
from tests.fixtures.http_port import ask


def test_s2_an_answer_has_its_id(service):
    """The vector sk.envelope.ok; ids are strings or numbers."""
    example = vector("sk.envelope.ok")
    answer = service.send(example["request"])
    assert (answer.status, answer.body["id"], answer.body["ok"]) == (200, "req-1", True)
    assert set(answer.body["result"]) == set(example["response"]["result"])
    assert abs(answer.body["result"]["time_unix_ms"] / 1000 - time.time()) < 60


@pytest.mark.parametrize("name", ["sk.envelope.version", "sk.envelope.unknown"])
def test_s3_errors_are_answers(service, name):
    """S2: HTTP 200 even so."""
    example = vector(name)
    answer = service.send(example["request"])
    assert (answer.status, answer.body["ok"]) == (200, False)
    assert answer.body["error"]["code"] == example["expect_error_code"]
    assert set(answer.body["error"]) == set(vector("sk.envelope.err")["response"]["error"])


def test_without_an_id_there_is_no_answer(service):
    """S2; the vector sk.envelope.notification."""
    example = vector("sk.envelope.notification")
    answer = service.send(example["request"])
    assert (answer.status, answer.body) == (example["http_status"], b"")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_request"),
        (b"{", 400, "invalid_request"),
        (b"\xff", 400, "invalid_request"),
        (b"[" * 5000, 400, "invalid_request"),
        (b"[]", 200, "invalid_request"),
        (b"5", 200, "invalid_request"),
        (b'{"skeinql":"1.0","id":{},"method":"system.ping"}', 200, "invalid_request"),
        (b'{"skeinql":"1.0","id":true,"method":"system.ping"}', 200, "invalid_request"),
        (b'{"skeinql":"1.0","id":1}', 200, "invalid_request"),
        (b'{"skeinql":"1.0","id":1,"method":5}', 200, "invalid_request"),
        (b'{"skeinql":"1.0","id":1,"method":"system.ping","params":[]}', 200, "invalid_request"),
        (b'{"id":1,"method":"system.ping"}', 200, "unsupported_version"),
        (b'{"skeinql":"1.0","id":1,"method":"' + b"x" * 1024 * 1024 + b'"}', 413, "invalid_request"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_malformed_and_oversized_calls_are_envelopes_too(service, body, status, code):
    """S2, S3: clients go by `ok`."""
    answer = ask(service.port, RPC, method="POST", headers=service.headers, body=body)
    assert (answer.status, answer.body["ok"], answer.body["error"]["code"]) == (status, False, code)
    assert set(answer.body) == {"id", "ok", "error"}


def test_who_is_not_known_gets_an_envelope(cdc):
    """S3: unauthorized."""
    call = json.dumps({"skeinql": "1.0", "id": 1, "method": "system.ping"})
    for headers in ({}, {"Authorization": "Bearer x.y.z"}):
        answer = ask(cdc.doors[0], RPC, method="POST", headers=headers, body=call)
        assert (answer.status, answer.body["ok"], answer.body["error"]["code"]) == (401, False, "unauthorized")
    answer = ask(cdc.doors[0], RPC, method="GET")
    assert (answer.status, answer.body["error"]["code"]) == (405, "not_supported")


def test_a_parameter_that_a_method_does_not_take_is_refused(cdc, service):
    """A filter with a typo would filter nothing."""
    table = cdc.table("id int PRIMARY KEY")
    for more in ({"filters": {"ops": ["delete"]}}, {"op": ["delete"]}, {"include": {"afters": True}}):
        code, message = service.refusal("cdc.subscribe_table", db=cdc.database, table=table, **more)
        assert code == "invalid_request"
        assert next(iter(more)) in message
    assert service.refusal("system.ping", bogus=1) == (
        "invalid_request",
        "unknown parameter 'bogus': system.ping takes none",
    )


def test_s1_what_there_is(cdc, service):
    """system.capabilities names each method."""
    assert set(service.result("system.capabilities")["methods"]) >= {
        "cdc.subscribe_table",
        "cdc.subscribe_query",
        "cdc.poll",
        "cdc.ack",
        "cdc.pause",
        "cdc.resume",
        "cdc.close",
        "query.prepare",
        "query.drop",
        "stats.snapshot",
        "system.ping",
        "system.version",
    }
    assert service.result("system.version")["skeinql"] == "1.0"
    document = service.get("/api/v1/openapi.json").body
    assert {RPC, "/api/v1/q/{query_id}", "/api/v1/cdc/sse/{sub_id}"} <= set(document["paths"])


def test_s40_statistics_are_for_operators(cdc, service):
    """S41: over all subscriptions."""
    table = cdc.table("id int PRIMARY KEY")
    stats = service.result("stats.snapshot")["cdc"]
    assert set(stats) == set(vector("sk.stats")["fields"])
    service.result("cdc.subscribe_table", db=cdc.database, table=table)
    deadline = time.monotonic() + 10
    while service.result("stats.snapshot")["cdc"]["active_subscriptions"] <= stats["active_subscriptions"]:
        assert time.monotonic() < deadline
    assert Caller(cdc.doors[0], {"sub": "nobody"}).refusal("stats.snapshot")[0] == "forbidden"
