"""What a client may ask for and when, and what its asking leaves as it was."""

from uuid import uuid4

import pytest

from proto.pgwire.live import (
    BACKEND_TYPES,
    DATA,
    NO_SUBSCRIPTION,
    Ack,
    Data,
    Pause,
    Refused,
    Resume,
    Subscribe,
    Unsubscribe,
    Update,
    decode_from_gateway,
)
from tests.conformance.stack.sandbox import Subscribed, kinds, refused
from tests.fixtures.wire import rows


def test_v4_v5_a_client_without_live_messages_sees_none_and_one_with_can_skip_them_by_their_length(sandbox):
    table = sandbox.table("id int PRIMARY KEY")
    with sandbox.client() as ordinary, sandbox.client() as live:
        held = Subscribed(live, f"SELECT * FROM {table}")
        for number in range(20):
            assert kinds(ordinary.query(f"INSERT INTO {table} VALUES ({number})")) == "CZ"
        held.until(sandbox.read(f"SELECT * FROM {table}"))
        sandbox.write(f"DELETE FROM {table}")
        seen = ""
        while chr(DATA) not in seen:
            seen += kinds(live.query("SELECT 1"))
        # What is left when everything is passed over that PostgreSQL does not have is what PostgreSQL says.
        assert set(seen.replace(chr(DATA), "").split("TDCZ")) == {""}


def test_v9_v12_parameters_are_bound_and_null_is_not_the_empty_string(sandbox):
    table = sandbox.table("id int PRIMARY KEY, name text")
    sandbox.write(f"INSERT INTO {table} VALUES (1, ''), (2, NULL), (3, '$1')")
    sql = f"SELECT id FROM {table} WHERE name IS NOT DISTINCT FROM $1 AND id < $2"
    with sandbox.client() as client:
        for value, found in ((b"", b"1"), (None, b"2"), (b"$1", b"3")):
            held = Subscribed(client, sql, (value, b"100"))
            assert held.rows == [(found,)]
            client.send(Unsubscribe(held.id))
        held = Subscribed(client, sql, (b"", b"100"))
        sandbox.write(f"INSERT INTO {table} VALUES (4, NULL), (5, ''), (101, '')")
        assert held.next() == Data(held.id, Update.INSERT, ((b"5",),))
        for wrong in ((), (b"",), (b"", b"much"), (b"", b"1", b"1")):
            message = refused(client, sql, wrong).message
            assert message.startswith(("Execution error: ", "Parse error: ")), message


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT a.id, b.n FROM {0} a JOIN {1} b ON b.id = a.id", 2),
        ("WITH w AS (SELECT * FROM {0} WHERE n > 0) SELECT id FROM w", 1),
        ("SELECT d.id FROM (SELECT id FROM {0} UNION ALL SELECT id FROM {1}) AS d", 2),
        ("SELECT x.id FROM {0} x, {0} y WHERE x.id = y.n", 1),
        ("SELECT id FROM {0} WHERE EXISTS (SELECT FROM {1})", 2),
        ("SELECT n, count(*) FROM {0} GROUP BY n", 1),
        ("SELECT 1 + 1", 0),
    ],
)
def test_v18_v24_any_select_is_answered_and_follows_every_table_that_it_reads(sandbox, sql, tables):
    names = [sandbox.table("id int PRIMARY KEY, n int") for _ in range(2)]
    query = sql.format(*names)
    sandbox.write(*(f"INSERT INTO {name} VALUES (1, 1), (2, 1)" for name in names))
    with sandbox.client() as client:
        held = Subscribed(client, query)
        assert (held.tables, sorted(held.rows)) == (tables, sandbox.read(query))
        for name in names:
            for change in (
                f"INSERT INTO {name} VALUES (3, 3), (4, 3), (5, 3)",
                f"UPDATE {name} SET n = 2 WHERE id < 4",
                f"DELETE FROM {name} WHERE id <> 2",
            ):
                sandbox.write(change)
                held.until(sandbox.read(query))


def test_v22_v23_subscribing_leaves_queries_and_transactions_as_they_were(sandbox):
    table = sandbox.table("id int PRIMARY KEY")
    good, bad = Subscribe(f"SELECT * FROM {table}"), Subscribe("SELECT * FROM nowhere")
    with sandbox.client() as client:
        client.query(f"BEGIN; INSERT INTO {table} VALUES (1)")
        assert isinstance(refused(client, bad.query), Refused)
        held = Subscribed(client, good.query)
        assert held.rows == [], "what is not committed is not seen"
        assert client.query("SELECT 1")[-1].body == b"T"
        assert client.query("SELECT 1/0")[-1].body == b"E"
        # Who the client is cannot be proven in a failed transaction: it is told so, and the transaction stays.
        assert "ROLLBACK and subscribe again" in refused(client, good.query).message
        assert client.query("SELECT 1")[-1].body == b"E"
        assert client.query("ROLLBACK")[-1].body == b"I"
        again = Subscribed(client, good.query)
        none = b"\0\0"
        client.send(("P", b"\0SELECT 7\0" + none), bad, ("B", b"\0\0" + none * 3), good, ("E", bytes(5)), ("S", b""))
        frames = client.frames_to_ready()
        assert rows(frames) == [(b"7",)]
        told = [decode_from_gateway(frame) for frame in frames if frame.type in BACKEND_TYPES]
        while len(told) < 3:
            told.append(client.live())
        (third,) = [one.subscription for one in told if isinstance(one, Ack)]
        assert {type(one) for one in told} == {Ack, Data, Refused}
        sandbox.write(f"INSERT INTO {table} VALUES (2)")
        assert {client.live().subscription for _ in range(3)} == {held.id, again.id, third}


@pytest.mark.parametrize("farewell", ["Terminate", "EOF"])
def test_v29_a_client_that_leaves_takes_its_subscriptions_with_it(sandbox, farewell):
    table = sandbox.table("id int PRIMARY KEY")
    sandbox.wait_for_nobody()
    client = sandbox.client()
    for _ in range(3):
        Subscribed(client, f"SELECT * FROM {table}")
    assert sandbox.metrics()["vibesql_subscriptions_active"] == 3
    if farewell == "Terminate":
        client.send(("X", b""))
        assert client.frame() is None
    else:
        client.hang_up()
    sandbox.wait_for_nobody()
    sandbox.wait_until(lambda: sandbox.metrics("registry")["tidewire_registry_subscriptions"] == 0)
    client.close()


def test_v30_ids_that_are_unknown_or_of_others_are_ignored_in_silence(sandbox):
    table = sandbox.table("id int PRIMARY KEY")
    with sandbox.client() as owner, sandbox.client() as stranger:
        held, own = (Subscribed(client, f"SELECT * FROM {table}") for client in (owner, stranger))
        for subscription in (held.id, uuid4(), NO_SUBSCRIPTION):
            stranger.send(Pause(subscription), Resume(subscription), Unsubscribe(subscription), Pause(subscription))
        assert kinds(stranger.query("SELECT 1")) == "TDCZ"
        sandbox.write(f"INSERT INTO {table} VALUES (1)")
        for one in (held, own):
            assert one.next() == Data(one.id, Update.INSERT, ((b"1",),))
