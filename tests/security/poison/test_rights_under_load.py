"""Rights that are lost are lost within 60 s, though a hostile role keeps the planner as busy as it can."""

import time
from contextlib import ExitStack

import pytest

from proto.pgwire.live import Ack, Data, Refused
from tests.security.poison.neighbour import HOSTILE

TEMPLATES = 30
CLOSED_WITHIN_S = 60.0
ROLES = ("revoked", "dropped", "secured", "viewer")


@pytest.fixture
def tables(stack):
    with stack.walk.connect() as connection:
        for role in ROLES:
            connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}'")
            connection.execute(f"CREATE TABLE of_{role} (id int PRIMARY KEY, secret text)")
            connection.execute(f"INSERT INTO of_{role} VALUES (1, 'mine'), (2, 'not mine')")
            connection.execute(f"GRANT SELECT ON of_{role} TO {role}")
        connection.execute("ALTER TABLE of_secured ENABLE ROW LEVEL SECURITY")
        connection.execute("CREATE POLICY seen ON of_secured USING (true)")
        connection.execute("CREATE VIEW shown AS SELECT id, secret FROM of_viewer")
        connection.execute("GRANT SELECT ON shown TO viewer")
        connection.execute("CREATE TABLE hostage (id int PRIMARY KEY, n int)")
        connection.execute("INSERT INTO hostage VALUES (1, 1)")
        connection.execute(f"GRANT SELECT ON hostage TO {HOSTILE}")
        yield connection
        connection.execute("DROP VIEW shown")
        for role in ROLES:
            connection.execute(f"DROP TABLE of_{role}")
            connection.execute(f"DROP ROLE IF EXISTS {role}")
        connection.execute("DROP TABLE hostage")


def first(connection, sql):
    messages = connection.subscribe(sql)
    assert isinstance(next(messages), Ack)
    message = next(messages)
    assert isinstance(message, Data), message
    return message


def told(connection, within_s):
    """What comes next, at the latest within that time."""
    message = connection.next_message(within_s)
    assert message is not None, f"nothing within {within_s} s"
    return message


@pytest.mark.slow
def test_rights_are_lost_in_time_while_the_planner_is_saturated(stack, neighbour, tables):
    with ExitStack() as opened:
        clients = {role: opened.enter_context(stack.hostile(role)) for role in ROLES}
        for role, client in clients.items():
            first(client, "SELECT id, secret FROM shown" if role == "viewer" else f"SELECT id, secret FROM of_{role}")
        hostile = opened.enter_context(stack.hostile())
        for number in range(TEMPLATES):
            message = first_or_wait(hostile, f"SELECT id, n AS n{number} FROM hostage")
            assert isinstance(message, Data)
        locking = opened.enter_context(stack.walk.connect())
        opened.enter_context(locking.transaction())
        locking.execute("LOCK TABLE hostage IN ACCESS EXCLUSIVE MODE")
        # Concerns every template: each of those of the hostage waits for the lock, again and again.
        tables.execute("CREATE FUNCTION disturbing() RETURNS int LANGUAGE sql IMMUTABLE RETURN 1")
        began_s = time.monotonic()
        tables.execute("REVOKE SELECT ON of_revoked FROM revoked")
        tables.execute("DROP OWNED BY dropped")
        tables.execute("DROP POLICY seen ON of_secured")
        tables.execute("CREATE OR REPLACE VIEW shown AS SELECT id, secret FROM of_viewer WHERE id = 1")

        def left_s():
            return began_s + CLOSED_WITHIN_S - time.monotonic()

        assert isinstance(told(clients["revoked"], left_s()), Refused)
        assert isinstance(told(clients["dropped"], left_s()), Refused)
        assert isinstance(told(clients["secured"], left_s()), Data | Refused)
        assert isinstance(told(clients["viewer"], left_s()), Data | Refused)
        neighbour.change_s(5.0)
    tables.execute("DROP FUNCTION disturbing()")


def first_or_wait(connection, sql):
    """The first result; a connection may subscribe so often a second."""
    while True:
        messages = connection.subscribe(sql)
        message = next(messages)
        if isinstance(message, Refused):
            assert message.message.startswith("Rate limited"), message
            time.sleep(0.1)
            continue
        assert isinstance(message, Ack), message
        return next(messages)
