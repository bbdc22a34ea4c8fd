"""Who a caller is, from what PostgreSQL or a token says."""

import pytest

from services.gateway.core.http_identity import (
    HTTP_DOOR,
    BadClaims,
    ClaimNames,
    RoleFacts,
    of_claims,
    of_login,
    refusal_of,
    strongest,
)

GOOD = RoleFacts(name="alice", can_login=True, is_superuser=False)


@pytest.mark.parametrize(
    ("roles", "expected"),
    [((), "user"), (("service",), "service"), (("service", "dba"), "dba"), (("user", "system", "dba"), "system")],
)
def test_the_strongest_membership_counts(roles, expected):
    assert strongest(frozenset(roles)) == expected


@pytest.mark.parametrize(
    ("facts", "superusers", "refused"),
    [
        (GOOD, False, False),
        (None, True, True),
        (RoleFacts(name="a", can_login=False, is_superuser=False), True, True),
        (RoleFacts(name="a", can_login=True, is_superuser=True), False, True),
        (RoleFacts(name="a", can_login=True, is_superuser=True), True, False),
        (RoleFacts(name="a", can_login=True, is_superuser=False, valid_until=100.0), False, True),
        (RoleFacts(name="a", can_login=True, is_superuser=False, valid_until=100.1), False, False),
    ],
)
def test_a_role_must_exist_log_in_be_valid_and_be_no_superuser(facts, superusers, refused):
    assert (refusal_of(facts, now_s=100.0, superusers=superusers) is not None) is refused


def test_a_login_s_identity_is_its_role():
    facts = RoleFacts(
        name="alice", can_login=True, is_superuser=False, valid_until=7.0, service_roles=frozenset({"dba"})
    )
    caller = of_login(facts)
    assert (caller.name, caller.database_role, caller.service_role, caller.expires_at) == ("alice", "alice", "dba", 7.0)


@pytest.mark.parametrize("value", ["authenticated", "SYSTEM", "", None, 7, ["dba"], {"dba": True}], ids=repr)
def test_an_unknown_service_role_gives_no_rights(value):
    assert of_claims({"sub": "x", "role": value}, ClaimNames()).service_role == "user"


@pytest.mark.parametrize("claims", [{}, {"sub": ""}, {"sub": 1}, {"sub": "x", "database_role": ""}], ids=repr)
def test_claims_that_name_nobody_are_refused(claims):
    with pytest.raises(BadClaims):
        of_claims(claims, ClaimNames())


def test_a_database_role_of_the_token_goes_before_the_default():
    names = ClaimNames(default_database_role="web")
    assert of_claims({"sub": "x"}, names).database_role == "web"
    assert of_claims({"sub": "x", "database_role": "alice"}, names).database_role == "alice"


def test_a_caller_is_a_principal_of_the_http_door_until_it_expires():
    caller = of_claims({"sub": "shop", "database_role": "alice", "exp": 1060}, ClaimNames())
    principal = caller.principal("c1", "app", now_s=1000.0, monotonic_s=7.0)
    told = (principal.login, principal.role, principal.door, principal.database, principal.expires_s)
    assert told == ("alice", "alice", HTTP_DOOR, "app", 67.0)
    assert of_login(GOOD).principal("c1", "app", now_s=1000.0, monotonic_s=7.0).expires_s is None


def test_a_caller_without_a_database_role_is_no_principal():
    assert of_claims({"sub": "shop", "exp": 1060}, ClaimNames()).principal("c", "d", now_s=0.0, monotonic_s=0.0) is None
