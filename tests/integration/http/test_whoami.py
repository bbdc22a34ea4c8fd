"""GET /api/v1/whoami: both ways to authenticate give one identity, and errors have one shape."""

import time

import pytest

from tests.fixtures.http_port import WHOAMI, token
from tests.fixtures.http_roles import PASSWORD


@pytest.mark.parametrize(
    ("login", "service_role"), [("alice", "user"), ("worker", "service"), ("keeper", "dba")], ids=str
)
def test_a_login_is_itself_with_the_service_role_of_its_memberships(http_port, login, service_role):
    answer = http_port().basic(login, PASSWORD)
    assert (answer.status, answer.body) == (
        200,
        {
            "name": login,
            "database_role": login,
            "service_role": service_role,
            "method": "basic",
            "claims": {},
            "expires_at": None,
        },
    )


def test_names_and_passwords_may_hold_colons_blanks_and_other_letters(http_port):
    """The user name ends at the first colon (RFC 7617), so that only the password may hold one."""
    port = http_port()
    assert port.basic("bob café", "päss:wörd").body["name"] == "bob café"
    assert port.basic("bob", "café:päss:wörd").status == 401


def test_a_login_expires_when_its_password_does(http_port):
    assert http_port().basic("limited", PASSWORD).body["expires_at"] == 4070908800.0


def test_a_superuser_is_let_in_where_the_setting_says_so(http_port):
    answer = http_port(superusers=True).basic("root", PASSWORD)
    assert (answer.status, answer.body["service_role"]) == (200, "system")


def test_a_token_is_who_it_says(http_port):
    claims = {"sub": "shop", "role": "service", "database_role": "alice", "exp": int(time.time()) + 60, "tenant": 7}
    answer = http_port().bearer(token(claims))
    assert (answer.status, answer.body) == (
        200,
        {
            "name": "shop",
            "database_role": "alice",
            "service_role": "service",
            "method": "bearer",
            "claims": claims,
            "expires_at": float(claims["exp"]),
        },
    )


def test_a_token_without_a_database_role_has_none_or_the_default(http_port):
    plain = token({"sub": "shop", "role": "authenticated", "exp": time.time() + 60})
    answer = http_port().bearer(plain)
    assert (answer.body["database_role"], answer.body["service_role"]) == (None, "user")
    assert http_port(jwt_default_database_role="alice").bearer(plain).body["database_role"] == "alice"


def test_the_claims_that_carry_roles_are_chosen_by_settings(http_port):
    port = http_port(jwt_service_role_claim="tw_role", jwt_database_role_claim="role")
    answer = port.bearer(token({"sub": "x", "role": "alice", "tw_role": "dba", "exp": time.time() + 60}))
    assert (answer.body["database_role"], answer.body["service_role"]) == ("alice", "dba")


def test_without_credentials_both_ways_are_offered(http_port):
    answer = http_port().ask()
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert answer.headers["www-authenticate"].split()[0] in ("Basic", "Bearer")


@pytest.mark.parametrize(
    ("path", "method", "status", "code"),
    [
        ("/nothing", "GET", 404, "not_found"),
        (WHOAMI, "POST", 405, "method_not_allowed"),
        ("/api/v1/docs", "GET", 404, "not_found"),
    ],
    ids=str,
)
def test_errors_of_the_framework_have_the_one_shape(http_port, path, method, status, code):
    answer = http_port().ask(path, method=method)
    assert (answer.status, answer.code) == (status, code)


def test_the_openapi_document_names_the_route_and_both_schemes(http_port):
    document = http_port().ask("/api/v1/openapi.json").body
    assert WHOAMI in document["paths"]
    assert {scheme["scheme"] for scheme in document["components"]["securitySchemes"].values()} == {"basic", "bearer"}


def test_answers_and_credentials_are_counted(http_port):
    port = http_port()
    port.basic("alice", PASSWORD)
    port.basic("alice", "wrong")
    results = {
        result: port.counted("tidewire_gateway_http_credentials_total", method="basic", result=result)
        for result in ("accepted", "refused")
    }
    assert results == {"accepted": 1, "refused": 1}
    assert port.counted("tidewire_gateway_http_answers_total", status="401") == 1
