"""The OpenAPI document is what the port does: each operation, asked by what its own schema allows and forbids."""

import json
import re
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fixtures.http_port import ask

DOCUMENT = "/api/v1/openapi.json"
EXAMPLES = 25
# Streams have no end to wait for: of them only what is refused is asked.
ENDLESS = ("/api/v1/admin/stream",)
# Whoever has no credentials yet asks for them there.
OPEN = ("/v1/api/auth/login", "/v1/api/auth/refresh", "/v1/api/healthcheck")
FORBIDDEN = st.one_of(st.text(max_size=30), st.integers(-(2**70), 2**70), st.just(""), st.just("%00"), st.just("null"))


def document(cdc):
    return ask(cdc.doors[0], DOCUMENT).body


def operations(found):
    return [(path, method, of) for path, ways in sorted(found["paths"].items()) for method, of in sorted(ways.items())]


def values(schema):
    """What a schema allows, and things beside it."""
    kinds = [one.get("type") for one in schema.get("anyOf", [schema])]
    allowed = st.integers(schema.get("minimum", 0), 2**53) if "integer" in kinds else st.text(max_size=20)
    return st.one_of(allowed, FORBIDDEN).map(str)


@st.composite
def requests(draw, path, operation):
    """An address and headers of the operation; each parameter may be there, be missing, or be nonsense."""
    query, headers = {}, {}
    for parameter in operation.get("parameters", ()):
        given_value = draw(values(parameter["schema"]))
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", quote(given_value or "x", safe=""))
        elif draw(st.booleans()):
            if parameter["in"] == "query":
                query[parameter["name"]] = given_value
            else:
                headers[parameter["name"]] = re.sub(r"[^\x20-\x7e]", "?", given_value).strip()
    return f"{path}?{urlencode(query)}", headers


def test_each_operation_is_declared_with_its_answers_credentials_and_a_name_of_its_own(cdc):
    """What a generator of clients needs."""
    found = document(cdc)
    assert found["openapi"].startswith("3.1")
    names = [operation["operationId"] for _, _, operation in operations(found)]
    assert len(names) == len(set(names)) and names
    assert set(found["components"]["securitySchemes"]) == {"Basic", "Bearer"}
    for path, method, operation in operations(found):
        assert operation["summary"], (method, path)
        credentials = {tuple(one) for one in operation.get("security", ())}
        assert credentials == (set() if path in OPEN else {("Basic",), ("Bearer",)}), (method, path)
        assert {"200", "default"} & set(operation["responses"]), (method, path)
        declared = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path)), path
    references = re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(found))
    for reference in references:
        inside = found
        for part in reference.split("/"):
            inside = inside[part]


def judge(caller, path, method, operation):
    """What is held against an answer of this operation."""

    def one(made, with_credentials):
        address, headers = made
        credentials = {"Authorization": caller.headers["Authorization"]} if with_credentials else {}
        body = None if method == "get" else b"{}"
        answer = ask(caller.port, address, method=method.upper(), headers={**headers, **credentials}, body=body)
        assert answer.status < 500 or answer.status == 504, (method, address, answer)
        declared = operation["responses"]
        assert str(answer.status) in declared or "default" in declared or answer.status in (401, 404), answer
        if not with_credentials and path not in OPEN:
            assert answer.status in (400, 401, 404), (address, answer)

    return one


@pytest.mark.parametrize("role", ("dba", "nobody"))
def test_no_operation_of_the_document_is_a_fault(cdc, role):
    """As schemathesis does: no answer is 500 or one that the document does not declare."""
    caller = cdc.dba() if role == "dba" else cdc.user(cdc.role())
    for path, method, operation in operations(document(cdc)):
        if role == "dba" and path in ENDLESS:
            continue
        asked = given(requests(path, operation), st.booleans())(judge(caller, path, method, operation))
        settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))(asked)()
