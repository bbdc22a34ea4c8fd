"""A session that is reset or becomes somebody else loses its subscriptions; limits count logins (issue 10, G)."""

import struct
import time

import psycopg
import pytest

from proto.pgwire.live import Refused, Subscribe
from tests.fixtures.wire import rows
from tests.security.gateway.house import ALONE, APP, BOSS, HIDDEN, READER, SETTINGS, SHOWN, TWIN, role

NOTHING = struct.pack("!h", 0)


def extended(sql):
    return ("P", b"\0" + sql.encode() + b"\0" + NOTHING), ("B", b"\0\0" + NOTHING * 3), ("E", bytes(5)), ("S", b"")


def ended(house, client, words):
    """The one subscription of this client was ended, and the registry is told."""
    message = client.live(10)
    assert isinstance(message, Refused) and words in message.message, message
    while house.command("unsubscribe").unsubscribe.subscription_id != message.subscription.bytes:
        pass  # of a client that has left


@pytest.mark.parametrize("way", ["simple", "extended", "cut"])
def test_discard_all_ends_what_the_connection_has(house, way):
    with house.client(ALONE) as client:
        assert role(house.owner(client)) == ALONE
        if way == "extended":
            client.send(*extended("DISCARD ALL"))
        elif way == "simple":
            client.send(("Q", b"DISCARD ALL\0"))
        else:
            client.send(b"Q\0\0\0")
            client.send(b"\x10DISCARD ALL\0")
        ended(house, client, "DISCARD ALL")
        client.frames_to_ready()
        assert rows(client.query("SELECT 1")) == [(b"1",)]
        assert role(house.owner(client)) == ALONE


def test_a_subscribe_that_is_being_checked_does_not_outlive_discard_all(house):
    with house.client(ALONE) as client, psycopg.connect(house.dsn) as other:
        other.execute("LOCK TABLE shown IN ACCESS EXCLUSIVE MODE")
        client.send(SHOWN)
        client.send(("Q", b"SELECT pg_sleep(0.1)\0"))
        client.frames_to_ready()
        client.query("DISCARD ALL")
        other.rollback()
        said = house.outcome(client)
        assert isinstance(said, str), said


def test_the_order_of_a_subscribe_and_discard_all_in_one_write_counts(house):
    with house.client(ALONE) as client:
        client.send(("Q", b"DISCARD ALL\0"), SHOWN)
        assert role(house.outcome(client)) == ALONE
        client.send(SHOWN, ("Q", b"DISCARD ALL\0"))
        assert "reset" in house.outcome(client)


def test_other_discards_and_resets_leave_it(house):
    with house.client(ALONE) as client:
        assert role(house.owner(client)) == ALONE
        for statement in ("DISCARD PLANS", "DISCARD TEMP", "RESET ALL", "RESET ROLE", "SET search_path = a"):
            client.query(statement)
        assert client.live(0.5) is None


def test_another_session_user_ends_what_the_former_one_had(house):
    with house.client() as client:
        client.query(f"SET SESSION AUTHORIZATION {ALONE}")
        owner = house.owner(client)
        assert (owner.login, owner.role) == (ALONE, ALONE)
        client.send(("Q", b"RESET SESSION AUTHORIZATION\0"))
        ended(house, client, "SET SESSION AUTHORIZATION")


def test_a_role_that_changed_ends_what_the_former_one_had_at_the_next_proof(house):
    with house.client(APP) as client:
        client.query(f"SET ROLE {BOSS}")
        assert role(house.owner(client, HIDDEN)) == BOSS
        client.query(f"SET ROLE {READER}")
        client.send(SHOWN)
        ended(house, client, "role has changed")
        assert role(house.outcome(client)) == READER
        assert "permission denied" in house.owner(client, HIDDEN)
        assert client.live(0.3) is None


CHANGES = {
    "set": (f"SET ROLE {READER}",),
    "reset": ("RESET ROLE",),
    "in a transaction": ("BEGIN", f"SET ROLE {READER}", "COMMIT"),
    "with a statement behind it": (f"SET ROLE {READER}; SELECT 1",),
    "in a block": (f"DO $$ BEGIN EXECUTE 'SET ROLE {READER}'; END $$",),
    "by a function": (f"SELECT set_config('role', '{READER}', false)",),
}


@pytest.mark.parametrize("statements", CHANGES.values(), ids=CHANGES)
def test_a_role_that_changed_ends_what_the_former_one_had_without_another_subscribe(house, statements):
    with house.client(APP) as client:
        client.query(f"SET ROLE {BOSS}")
        assert role(house.owner(client, HIDDEN)) == BOSS
        for statement in statements:
            client.query(statement)
        ended(house, client, "role has changed")
        assert rows(client.query("SELECT 1")) == [(b"1",)]


@pytest.mark.parametrize("statements", [("BEGIN", f"SET ROLE {READER}", "ROLLBACK"), ("SET search_path = a",)])
def test_a_role_that_is_the_same_again_ends_nothing(house, statements):
    with house.client(APP) as client:
        client.query(f"SET ROLE {BOSS}")
        assert role(house.owner(client, HIDDEN)) == BOSS
        for statement in statements:
            client.query(statement)
        assert client.live(1.0) is None


def test_a_login_has_a_limit_over_all_its_connections(house):
    gateway = house.gateway(**SETTINGS, TIDEWIRE_GATEWAY_LOGIN_LIMIT="3").wait_ready()
    at = {"port": gateway.port}
    with house.client(ALONE, **at) as one, house.client(ALONE, **at) as two, house.client(TWIN, **at) as other:
        for client in (one, two, two):
            assert role(house.owner(client)) == ALONE
        assert f"login '{ALONE}' has 3 subscriptions here, the limit is 3" in house.owner(one)
        assert role(house.owner(other)) == TWIN
        two.query("DISCARD ALL")
        assert role(house.owner(one)) == ALONE


def test_one_role_s_slow_checks_leave_room_for_the_others(house):
    with psycopg.connect(house.dsn) as other, house.client(TWIN) as patient:
        other.execute("LOCK TABLE hidden IN ACCESS EXCLUSIVE MODE")
        slow = [house.client(ALONE) for _ in range(3)]
        for at, client in enumerate(slow):
            client.send(*[Subscribe(f"SELECT {10 * at + n} FROM hidden") for n in range(10)])
        began = time.monotonic()
        patient.send(SHOWN)
        assert house.command("subscribe").subscribe.owner.role == TWIN
        took_s = time.monotonic() - began
        for client in slow:
            client.close()
    assert took_s < 1.5


def test_a_checking_connection_that_died_is_replaced(house):
    with house.client(ALONE) as client, psycopg.connect(house.dsn, autocommit=True) as other:
        assert role(house.owner(client)) == ALONE
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name ~ '^tidewire'"
        )
        assert role(house.owner(client)) == ALONE
