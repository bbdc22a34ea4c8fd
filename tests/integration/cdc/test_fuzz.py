"""Calls that mean nothing: whatever is sent, the door answers with a code of its own and never with a fault."""

import json
from urllib.parse import quote

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.gateway.core.cdc.parameters import PARAMETERS
from services.gateway.inbound.http_port.envelopes import CODES
from tests.fixtures.cdc import RPC
from tests.fixtures.http_port import ask

texts = st.text(max_size=20)
literals = st.fixed_dictionaries(
    {"t": st.sampled_from(["i64", "u64", "str", "dec", "bytes", "date", "json", "null", "f64"])},
    optional={"v": st.integers() | texts | st.booleans(), "b64": texts, "iso": texts},
)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
        literals,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
METHODS = [
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
]
NAMES = [
    "db", "table", "sub_id", "query_id", "from_offset", "limit", "wait_ms", "offset", "args",
    "ops", "pk", "pk_range", "columns", "include", "format", "sql",
]  # fmt: skip
lenient = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def sample(cdc):
    """A table and a subscription that are really there, so that calls come further than their names."""
    if not hasattr(cdc, "fuzzed"):
        table = cdc.table("id int PRIMARY KEY, n int")
        sub = cdc.service().result("cdc.subscribe_table", db=cdc.database, table=table)["sub_id"]
        cdc.fuzzed = {"db": cdc.database, "table": table, "sub_id": sub}
    return cdc.fuzzed


def expect_own_answer(answer):
    assert answer.status in (200, 204, 400, 413), answer
    if answer.status != 204:
        assert set(answer.body) in ({"id", "ok", "result"}, {"id", "ok", "error"})
        assert answer.body["ok"] or answer.body["error"]["code"] in CODES - {"internal"}, answer


@given(st.sampled_from(METHODS), st.dictionaries(st.sampled_from(NAMES), values, max_size=5), st.booleans())
@lenient
def test_s3_no_call_is_a_fault(cdc, method, params, real):
    known = sample(cdc) if real and method != "cdc.close" else {}
    if real:
        # Without what the method does not take, which would be refused at once.
        params = {name: value for name, value in {**params, **known}.items() if name in PARAMETERS[method]}
    if isinstance(params.get("wait_ms"), int):
        params["wait_ms"] = 0
    expect_own_answer(cdc.service().send({"skeinql": "1.0", "id": 1, "method": method, "params": params}))


@given(st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()))
@lenient
def test_s2_no_body_is_a_fault(cdc, body):
    service = cdc.service()
    expect_own_answer(ask(service.port, RPC, method="POST", headers=service.headers, body=body))


@given(
    st.sampled_from(["/api/v1/q/", "/api/v1/cdc/sse/", "/api/v1/cdc/snapshot/"]),
    texts.filter(bool),
    st.dictionaries(st.sampled_from(["from_offset", "args", "after", "token"]), texts, max_size=2),
)
@lenient
def test_no_path_is_a_fault(cdc, path, name, query):
    asked = "&".join(f"{key}={quote(value)}" for key, value in query.items())
    answer = cdc.service().get(f"{path}{quote(name, safe='')}?{asked}")
    assert answer.status in (400, 401, 404, 405, 307), answer
