"""`/v1/api/auth/{login,refresh}` (decision 26): PostgreSQL judges, and a refresh token opens nothing else."""

import json

import pytest

from services.gateway.inbound.http_port.login import LoginDoor
from services.gateway.settings import HttpPort, Topics
from tests.fixtures.http_port import SECRET, run_http_port
from tests.fixtures.http_roles import PASSWORD

LOGIN, REFRESH = "/v1/api/auth/login", "/v1/api/auth/refresh"


@pytest.fixture
def port(http_database):
    with run_http_port(http_database.dsn, doors=(LoginDoor(HttpPort(jwt_secret=SECRET), Topics()),)) as running:
        yield running


def login(port, **body):
    return port.ask(LOGIN, method="POST", body=json.dumps(body))


@pytest.mark.parametrize("field", ["user", "username"])
def test_a_login_gives_tokens_with_the_role_of_its_memberships(port, field) -> None:
    answer = login(port, **{field: "worker", "password": PASSWORD})
    assert answer.status == 200
    body = answer.body
    assert body["user"]["id"] == "worker" and body["user"]["role"] == "service"
    assert {"created_at", "updated_at"} <= set(body["user"]) and body["admin_ui_access"] is False
    assert body["expires_at"].endswith("Z") and body["refresh_expires_at"] > body["expires_at"]
    who = port.bearer(body["access_token"]).body
    assert (who["name"], who["database_role"], who["service_role"]) == ("worker", "worker", "service")


def test_a_refresh_token_gives_new_ones_and_opens_nothing_else(port) -> None:
    body = login(port, user="worker", password=PASSWORD).body
    bearer = {"Authorization": f"Bearer {body['refresh_token']}"}
    again = port.ask(REFRESH, method="POST", headers=bearer)
    assert again.status == 200 and port.bearer(again.body["access_token"]).body["name"] == "worker"
    assert port.bearer(body["refresh_token"]).status == 401
    for token in (body["access_token"], "x.y.z", ""):
        refused = port.ask(REFRESH, method="POST", headers={"Authorization": f"Bearer {token}"})
        assert refused.status == 401 and refused.body["code"] == "UNAUTHORIZED"


def test_wrong_passwords_and_forms_are_refused_in_the_documented_form(port) -> None:
    wrong = login(port, user="worker", password="wrong")
    assert wrong.status == 401 and set(wrong.body) == {"error", "code", "message"}
    assert login(port, user="root", password=PASSWORD).status == 401
    assert login(port, user="worker", password=PASSWORD, other=1).status == 422
    assert login(port, password=PASSWORD).status == 422
    assert port.ask(LOGIN, method="POST", body="{").status == 422
