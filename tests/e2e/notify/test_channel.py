"""The channel, from a registration by SQL to psycopg and WebSocket clients of a real stack."""

import json

import psycopg
import pytest

from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.slow


def test_p10_p24_p25_a_change_is_the_same_bytes_on_the_channel_and_on_a_socket(door):
    """P10, P11, P24, P25: pgr.delta.bytes and pgr.subscribed, the document's own session, byte for byte."""
    door.sql("CREATE TABLE orders (id int PRIMARY KEY, status text, amount numeric, note text)")
    name, gen = door.register("SELECT id, status, amount FROM orders WHERE status = 'active'")
    listener = door.listen()
    with door.socket(name) as socket:
        assert socket.recv(timeout=30) == json.dumps({"type": "subscribed", "query_id": name}, separators=(",", ":"))
        before = door.result(name).body
        assert (before["gen"], before["rows"]) == (gen, [])
        seq = before["seq"] + 1
        door.sql("INSERT INTO orders VALUES (42, 'active', 149.99, 'n')")
        wanted = (
            f'{{"query_id":"{name}","seq":{seq},"gen":{gen},'
            '"inserted":[{"id":42,"status":"active","amount":149.99}],"deleted":[]}'
        )
        assert socket.recv(timeout=60) == wanted
        assert listener.until(lambda one: one["query_id"] == name and "inserted" in one) == wanted
        # P12: an update is the old row deleted and the new one inserted.
        door.sql("UPDATE orders SET amount = 6.50 WHERE id = 42")
        moved = json.loads(socket.recv(timeout=60))
        assert (moved["seq"], moved["deleted"][0]["amount"], moved["inserted"][0]["amount"]) == (seq + 1, 149.99, 6.5)
        # P13: unreferenced columns consume nothing; P15: a row outside of the result consumes a seq in silence.
        door.sql("UPDATE orders SET note = 'other'", "INSERT INTO orders VALUES (43, 'closed', 1, '')")
        door.sql("DELETE FROM orders WHERE id = 42")
        gone = json.loads(socket.recv(timeout=60))
        assert gone["deleted"] == [{"id": 42, "status": "active", "amount": 6.50}]
        assert seq + 2 <= gone["seq"] <= seq + 3
        after = door.result(name).body
        assert (after["seq"], after["gen"], after["rows"]) == (gone["seq"], gen, [])
    listener.close()


def test_p22_p23_p27_p28_a_new_registration_ends_the_sockets_of_the_old_one(door):
    """P22, P23, P27, P28."""
    table = door.name()
    door.sql(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    name, gen = door.register(f"SELECT id FROM {table}")
    listener = door.listen()
    with door.socket(name) as socket:
        socket.recv(timeout=30)
        _, later = door.register(f"SELECT id + 1 AS id FROM {table}", name=name)
        assert later > gen
        with pytest.raises(Exception) as closed:
            socket.recv(timeout=60)
        assert closed.value.rcvd.code == 4001
    told = listener.until(lambda one: one.get("type") == "resubscribed" and one["query_id"] == name)
    assert told == f'{{"type":"resubscribed","query_id":"{name}","gen":{later}}}'
    door.sql(f"SELECT pgr.unsubscribe('{name}')")
    listener.until(lambda one: one.get("type") == "resubscribed" and one["query_id"] == name and one["gen"] > later)
    assert door.result(name).status == 404
    assert door.sql(f"SELECT pgr.unsubscribe('{name}')") == [(False,)]
    listener.close()


def test_p17_p20_a_large_delta_is_an_overflow_and_the_next_one_is_not(door):
    """P16, P17, P19, P20."""
    table = door.name()
    door.sql(f"CREATE TABLE {table} (id int PRIMARY KEY, body text)")
    name, gen = door.register(f"SELECT id, body FROM {table}")
    with door.socket(name) as socket:
        socket.recv(timeout=30)
        door.sql(f"INSERT INTO {table} VALUES (1, repeat('x', 9000))")
        told = socket.recv(timeout=60)
        seq = json.loads(told)["seq"]
        assert told == f'{{"type":"overflow","query_id":"{name}","seq":{seq},"gen":{gen},"fetch":true}}'
        assert door.result(name).body == {
            "query_id": name, "gen": gen, "seq": seq, "rows": [{"id": 1, "body": "x" * 9000}],
        }  # fmt: skip
        door.sql(f"INSERT INTO {table} VALUES (2, 'y')")
        assert json.loads(socket.recv(timeout=60))["inserted"] == [{"id": 2, "body": "y"}]


def test_p21_mode_notify_tells_only_that_something_changed(door):
    """P3, P21."""
    table = door.name()
    door.sql(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    name, gen = door.register(f"SELECT count(*) AS n FROM {table} WHERE id < 0", rest=", mode => 'notify'")
    with door.socket(name) as socket:
        socket.recv(timeout=30)
        seq = door.result(name).body["seq"] + 1
        door.sql(f"INSERT INTO {table} VALUES (1)")
        assert socket.recv(timeout=60) == f'{{"type":"invalidated","query_id":"{name}","seq":{seq},"gen":{gen}}}'
        assert door.result(name).body["rows"] == [{"n": 0}]


def test_p9_a_transaction_that_is_rolled_back_tells_nothing_and_a_committed_one_once(door):
    """P8, P9: one message a transaction."""
    table = door.name()
    door.sql(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    name, _ = door.register(f"SELECT id FROM {table}")
    with door.socket(name) as socket:
        socket.recv(timeout=30)
        door.sql("BEGIN", f"INSERT INTO {table} VALUES (1)", "ROLLBACK")
        door.sql("BEGIN", f"INSERT INTO {table} VALUES (2)", f"INSERT INTO {table} VALUES (3)", "COMMIT")
        inserted = json.loads(socket.recv(timeout=60))["inserted"]
        assert sorted(row["id"] for row in inserted) == [2, 3]


def test_p32_p33_who_is_refused_and_how(door):
    """P32, P33, decision 30: 401 before anything, 404 for no query and for another audience, 403 for services."""
    table = door.name()
    door.sql(f"CREATE TABLE {table} (id int)")
    name, _ = door.register(f"SELECT id FROM {table}")
    door.sql(f"""SELECT pgr.subscribe('{name}_42', 'SELECT 1 AS one', audience => '{{"sub": "42"}}')""")
    assert door.refused(f"/ws/{name}")[0] == 401
    assert door.refused(f"/ws/{name}?token=x.y.z")[0] == 401
    unknown, foreign = (door.refused(f"/ws/{query}", door.headers()) for query in ("no_such", f"{name}_42"))
    assert unknown[0] == 404 and unknown == foreign
    assert door.refused(f"/ws/{name}_42", door.headers(role="service"))[0] == 403
    assert door.refused(f"/ws/{name}_42", door.headers(sub="42"))[0] == 101
    assert door.result(f"{name}_42").status == 404
    assert door.result(f"{name}_42", sub="42").status in (200, 503)


def test_listening_obeys_transactions_and_rights(door):
    """P1, P2, P30: LISTEN as PostgreSQL has it, and a message only for whom may be the query's role."""
    table, other = door.name(), door.name("role")
    door.sql(f"CREATE TABLE {table} (id int PRIMARY KEY)", f"CREATE ROLE {other} LOGIN PASSWORD '{other}'")
    name, _ = door.register(f"SELECT id FROM {table}")
    quoted, none, undone, left = (
        door.listen(statement) for statement in ('LISTEN "pgr"', "LISTEN other", "BEGIN", "LISTEN pgr")
    )
    undone.connection.execute("LISTEN pgr")
    undone.connection.execute("ROLLBACK")
    left.connection.execute("UNLISTEN *")
    dsn = psycopg.conninfo.make_conninfo(door.stack.gateway_dsn, user=other, password=other)
    with psycopg.connect(dsn, autocommit=True) as stranger:
        stranger.execute("LISTEN pgr")
        # PostgreSQL's own notifications: another channel passes, ours does not.
        door.sql("NOTIFY other, 'hello'", "NOTIFY pgr, 'forged'")
        door.sql(f"INSERT INTO {table} VALUES (1)")
        assert json.loads(quoted.until(lambda one: one["query_id"] == name))["inserted"] == [{"id": 1}]
        assert [one.payload for one in none.connection.notifies(timeout=5, stop_after=1)] == ["hello"]
        for session in (undone.connection, left.connection, stranger):
            assert [one.payload for one in session.notifies(timeout=0.5)] == []
    assert all("forged" not in payload for payload in quoted.payloads)
    # Inside of a transaction nothing comes; at its end everything does.
    quoted.payloads.clear()
    with quoted.connection.transaction():
        quoted.connection.execute("SELECT 1")
        door.sql(f"INSERT INTO {table} VALUES (2)")
        with door.socket(name):
            assert door.result(name).status == 200
        assert quoted.gather(1.0) == []
    assert json.loads(quoted.until(lambda one: one["query_id"] == name))["inserted"] == [{"id": 2}]
    for listener in (quoted, none, undone, left):
        listener.close()


def test_p35_p36_killed_services_lose_nothing_that_a_client_is_not_told_of(door):
    """P26, P35, P36: after kill -9 of recompute and gateway the rows are PostgreSQL's, and no seq goes back."""
    table = door.name()
    door.sql(f"CREATE TABLE {table} (id int PRIMARY KEY, v int)")
    name, gen = door.register(f"SELECT id, v FROM {table}")
    door.sql(f"INSERT INTO {table} SELECT i, 0 FROM generate_series(1, 5) i")
    first = door.result(name).body
    door.stack.kill("recompute")
    door.sql(f"UPDATE {table} SET v = 1 WHERE id < 3", f"DELETE FROM {table} WHERE id = 5")
    door.stack.start("recompute")
    door.stack.wait_ready("recompute", 180.0)
    with door.socket(name) as socket:
        socket.recv(timeout=30)
        door.stack.kill("gateway")
    door.stack.start("gateway")
    door.stack.wait_ready("gateway", 60.0)

    def rows():
        answer = door.result(name)
        return answer.body if answer.status == 200 else {"rows": None, "seq": 0}

    wanted = [{"id": 1, "v": 1}, {"id": 2, "v": 1}, {"id": 3, "v": 0}, {"id": 4, "v": 0}]
    wait_until(lambda: sorted(rows()["rows"] or [], key=lambda one: one["id"]) == wanted, "the rows", within_s=120.0)
    last = rows()
    assert last["gen"] == gen and last["seq"] > first["seq"]
    assert door.sql("SELECT pgr.restore_subscriptions()")[0][0] >= 1
