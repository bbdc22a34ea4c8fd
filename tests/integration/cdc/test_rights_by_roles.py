"""A right that was lost and given back by what no event trigger tells: memberships, attributes, REASSIGN OWNED."""

import secrets
from contextlib import contextmanager

import psycopg
import pytest

from services.cli import install
from services.gateway.core.cdc.window import RIGHTS_CHANGED
from tests.fixtures.cdc import Caller
from tests.fixtures.http_port import basic
from tests.integration.cdc.test_ddl_in_the_log import lost_because, polled, rows_of, subscribed


@pytest.fixture
def table(cdc):
    return cdc.table("id int PRIMARY KEY, v text")


@pytest.fixture
def group(cdc, table):
    name = f"cdc_group_{secrets.token_hex(5)}"
    cdc.sql(f"CREATE ROLE {name}")
    cdc.sql(f"GRANT SELECT ON {table} TO {name}")
    return name


# How the role has its right, loses it, and has it again.
WAYS = {
    "a membership": ("GRANT {group} TO {role}", "REVOKE {group} FROM {role}", "GRANT {group} TO {role}"),
    "another group": ("GRANT {group} TO {role}", "REVOKE {group} FROM {role}", "GRANT pg_read_all_data TO {role}"),
    "a grant": ("GRANT {group} TO {role}", "REVOKE {group} FROM {role}", "GRANT SELECT ON {table} TO {role}"),
    "bypassing policies": (
        "GRANT {group} TO {role}; ALTER TABLE {table} ENABLE ROW LEVEL SECURITY; ALTER ROLE {role} BYPASSRLS",
        "ALTER ROLE {role} NOBYPASSRLS",
        "ALTER ROLE {role} BYPASSRLS",
    ),
    "ownership": (
        "ALTER TABLE {table} OWNER TO {role}",
        "REASSIGN OWNED BY {role} TO {group}",
        "REASSIGN OWNED BY {group} TO {role}",
    ),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("is_seen", [True, False], ids=["seen", "unseen"])
def test_rows_of_a_time_without_the_right_are_not_told(cdc, table, group, way, is_seen):
    """Whether or not the caller came in the meantime and was sent away."""
    role = cdc.role()
    names = {"table": table, "group": group, "role": role}
    given, taken, given_back = (statement.format(**names) for statement in way)
    cdc.sql(given)
    user = cdc.user(role)
    sub = subscribed(cdc, user, table, include={"after": True})
    cdc.sql(taken)
    if is_seen:
        assert user.refusal("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])[0] == "forbidden"
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'secret')")
    cdc.sql(f"DELETE FROM {table}")
    cdc.sql(given_back)
    assert lost_because(user, sub) == RIGHTS_CHANGED
    later = polled(user, sub)["next_offset"]
    cdc.sql(f"INSERT INTO {table} VALUES (2, 'open')")
    assert rows_of(user, {**sub, "offset": later}) == [{"id": 2, "v": "open"}]


def test_a_stream_does_not_tell_them_either(cdc, table, group):
    role = cdc.role(f"GRANT {group} TO {{}}")
    user = cdc.user(role)
    sub = subscribed(cdc, user, table, include={"after": True})
    with user.sse(sub["sub_id"]) as stream:
        cdc.sql(f"INSERT INTO {table} VALUES (1, 'open')")
        assert stream.next().name == "insert"
        # All at once, so that no look of the stream falls between.
        cdc.sql(
            f"DO $$ BEGIN REVOKE {group} FROM {role}; INSERT INTO {table} VALUES (2, 'secret'); "
            f"DELETE FROM {table}; GRANT {group} TO {role}; END $$"
        )
        last = stream.next()
    assert (last.name, last.data["resnapshot_reason"]) == ("resnapshot", RIGHTS_CHANGED)


def test_a_grant_that_was_open_while_others_committed_opens_nothing(cdc, table, group):
    """Its xid is older than theirs, and older than the subscription."""
    role = cdc.role(f"GRANT {group} TO {{}}")
    user = cdc.user(role)
    with psycopg.connect(cdc.captured.dsn) as slow:
        slow.execute(f"GRANT pg_read_all_data TO {role}")
        sub = subscribed(cdc, user, table, include={"after": True})
        cdc.sql(f"REVOKE SELECT ON {table} FROM {group}")
        cdc.sql(f"INSERT INTO {table} VALUES (1, 'secret')")
        cdc.sql(f"DELETE FROM {table}")
        slow.commit()
    assert lost_because(user, sub) == RIGHTS_CHANGED


@contextmanager
def another_gateway(cdc, **environ):
    cdc.start_gateway(**environ)
    try:
        yield
    finally:
        cdc.gateways.pop().kill()
        cdc.doors.pop()


def test_a_gateway_that_began_later_knows_it_too(cdc, table, group):
    role, other = cdc.role(f"GRANT {group} TO {{}}"), cdc.role(f"GRANT {group} TO {{}}")
    sub = subscribed(cdc, cdc.user(role), table, include={"after": True})
    kept = subscribed(cdc, cdc.user(other), table, include={"after": True})
    cdc.sql(f"REVOKE {group} FROM {role}")
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'secret')")
    cdc.sql(f"GRANT {group} TO {role}")
    with another_gateway(cdc):
        assert lost_because(cdc.user(role, door=-1), sub) == RIGHTS_CHANGED
        # Whose right rests on what it did goes on there.
        assert rows_of(cdc.user(other, door=-1), kept) == [{"id": 1, "v": "secret"}]


@pytest.mark.parametrize("may_look", [True, False], ids=["with pg_authid", "without"])
def test_the_gateway_s_own_role_is_enough(cdc, postgres_server, table, group, may_look):
    """As `tidewire install` makes it. Where it may not see when roles were altered, it believes its own looks alone."""
    login = f"cdc_gateway_{secrets.token_hex(5)}"
    install.run(cdc.captured.dsn, {install.Duty.GATEWAY: login}, "of-a-test")
    if not may_look:
        cdc.sql(f"REVOKE SELECT (oid, xmin) ON pg_authid FROM {login}")
    plain = cdc.role(f"GRANT {group} TO {{}}")
    passing = cdc.role(f"GRANT {group} TO {{}}", "ALTER ROLE {} BYPASSRLS")
    hidden = cdc.table("id int PRIMARY KEY, v text")
    cdc.sql(f"GRANT SELECT ON {hidden} TO {group}; ALTER TABLE {hidden} ENABLE ROW LEVEL SECURITY")
    subs = {role: subscribed(cdc, cdc.user(role), name) for role, name in ((plain, table), (passing, hidden))}
    with another_gateway(cdc, TIDEWIRE_POSTGRES_DSN=postgres_server.dsn_of(cdc.database, login, "of-a-test")):
        near = subscribed(cdc, cdc.user(passing, door=-1), hidden)
        cdc.sql(f"INSERT INTO {hidden} VALUES (1, 'x'); INSERT INTO {table} VALUES (1, 'x')")
        assert len(polled(cdc.user(passing, door=-1), near)["events"]) == 1
        assert len(polled(cdc.user(plain, door=-1), subs[plain])["events"]) == 1
        found = polled(cdc.user(passing, door=-1), subs[passing])
        assert found["resnapshot_required"] is not may_look
        cdc.sql(f"REVOKE {group} FROM {plain}")
        cdc.sql(f"INSERT INTO {table} VALUES (2, 'secret')")
        cdc.sql(f"GRANT {group} TO {plain}")
        behind = {**subs[plain], "offset": found["latest_offset"]}
        assert lost_because(cdc.user(plain, door=-1), behind) == RIGHTS_CHANGED


def test_a_service_role_that_comes_by_membership_counts_like_a_right(cdc, table):
    cdc.sql("DO $$ BEGIN CREATE ROLE tidewire_dba; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    role = cdc.role("ALTER ROLE {} PASSWORD 'of-a-test'", "GRANT tidewire_dba TO {}")
    user = Caller(cdc.doors[0], {"sub": role})
    user.headers |= basic(role, "of-a-test")
    sub = subscribed(cdc, user, table, include={"after": True})
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'open')")
    assert rows_of(user, sub) == [{"id": 1, "v": "open"}]
    cdc.sql(f"REVOKE tidewire_dba FROM {role}")
    cdc.sql(f"INSERT INTO {table} VALUES (2, 'secret')")
    cdc.sql(f"GRANT tidewire_dba TO {role}")
    ahead = {**sub, "offset": sub["offset"] + 1}
    assert lost_because(user, ahead) == RIGHTS_CHANGED


def test_a_new_password_or_a_membership_beside_it_interrupts_nothing(cdc, table, group):
    beside = cdc.role()
    roles = [cdc.role(f"GRANT {group} TO {{}}"), cdc.role(f"GRANT SELECT ON {table} TO {{}}")]
    subs = [subscribed(cdc, cdc.user(role), table, include={"after": True}) for role in roles]
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    for role in roles:
        cdc.sql(f"ALTER ROLE {role} PASSWORD 'another'")
        cdc.sql(f"GRANT {beside} TO {role}")
    cdc.sql(f"INSERT INTO {table} VALUES (2, 'b')")
    for role, sub in zip(roles, subs, strict=True):
        assert [row["id"] for row in rows_of(cdc.user(role), sub)] == [1, 2]


def test_rows_that_were_seen_with_the_right_are_told_again(cdc, table, group):
    """A look between them counts: only what came since the last one is in doubt."""
    role = cdc.role(f"GRANT {group} TO {{}}")
    user = cdc.user(role)
    sub = subscribed(cdc, user, table, include={"after": True})
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    assert [row["id"] for row in rows_of(user, sub)] == [1]
    cdc.sql(f"REVOKE {group} FROM {role}")
    cdc.sql(f"GRANT {group} TO {role}")
    assert [row["id"] for row in rows_of(user, sub)] == [1]
    cdc.sql(f"INSERT INTO {table} VALUES (2, 'b')")
    assert [row["id"] for row in rows_of(user, sub)] == [1, 2]
