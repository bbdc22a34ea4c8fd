"""A commit passes through every service to a client: V18–V26, V31–V39, V41."""

import time

import psycopg
import pytest

from proto.pgwire.live import NO_SUBSCRIPTION, Ack, Data, PartialData, PartialRow, Refused, Update
from tests.fixtures.live_client import LiveConnection

QUERY = "SELECT id, status FROM orders WHERE customer = 7"


@pytest.fixture(scope="module")
def orders(stack):
    with stack.connect() as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, customer int NOT NULL, status text, note text)")
        connection.execute("INSERT INTO orders SELECT n, n % 10, 'new', repeat('x', n) FROM generate_series(1, 100) n")
        yield connection


def answer(connection, sql):
    """What PostgreSQL answers, as the rows of a message."""
    cursor = psycopg.ClientCursor(connection)
    return sorted(tuple(None if v is None else str(v).encode() for v in row) for row in cursor.execute(sql))


def subscribed(client, sql, *arguments):
    """Subscribe and take Ack and first result."""
    messages = client.subscribe(sql, *arguments)
    ack = next(messages)
    assert isinstance(ack, Ack), ack
    first = next(messages)
    assert isinstance(first, Data), first
    return ack, first, messages


def merged(rows, message, key=0):
    """The result of a client that applied one more message."""
    held = {row[key]: row for row in rows}
    if isinstance(message, PartialData):
        for part in message.rows:
            old = held[part.values[key]]
            held[part.values[key]] = tuple(part.values.get(at, value) for at, value in enumerate(old))
        return sorted(held.values())
    for row in message.rows:
        if message.update is Update.DELETE:
            assert held.pop(row[key]) == row
        else:
            held[row[key]] = row
    return sorted(held.values())


def test_a_commit_reaches_the_client(stack, orders):
    with stack.live() as client:
        ack, first, messages = subscribed(client, QUERY)
        assert (ack.tables, ack.subscription.version, first.subscription) == (1, 4, ack.subscription)
        assert (first.update, sorted(first.rows)) == (Update.FULL, answer(orders, QUERY))

        orders.execute("INSERT INTO orders VALUES (1000, 7, 'new'), (1001, 8, 'new')")
        assert next(messages) == Data(ack.subscription, Update.INSERT, ((b"1000", b"new"),))

        orders.execute("UPDATE orders SET status = 'paid' WHERE id IN (1000, 1001)")
        # One column of two is not more than half: the row comes in part (V46).
        assert next(messages) == PartialData(ack.subscription, (PartialRow(2, {0: b"1000", 1: b"paid"}),))

        orders.execute("UPDATE orders SET customer = 8 WHERE id = 1000")
        assert next(messages) == Data(ack.subscription, Update.DELETE, ((b"1000", b"paid"),))

        orders.execute("UPDATE orders SET customer = 7, status = NULL WHERE id = 1001")
        assert next(messages) == Data(ack.subscription, Update.INSERT, ((b"1001", None),))

        orders.execute("DELETE FROM orders WHERE id IN (1000, 1001)")
        assert next(messages) == Data(ack.subscription, Update.DELETE, ((b"1001", None),))

        # One transaction, three kinds: deletes, then updates, then inserts.
        with orders.transaction():
            orders.execute("INSERT INTO orders VALUES (1002, 7, 'new')")
            orders.execute("UPDATE orders SET status = 'sent' WHERE id = 7")
            orders.execute("DELETE FROM orders WHERE id = 17")
        three = [next(messages) for _ in range(3)]
        assert [type(message) for message in three] == [Data, PartialData, Data]
        assert [three[0].update, three[2].update] == [Update.DELETE, Update.INSERT]
        rows = sorted(first.rows)
        for message in three:
            rows = merged(rows, message)
        assert rows == answer(orders, QUERY)


def test_what_does_not_concern_a_result_is_not_sent(stack, orders):
    with stack.live() as client:
        ack, _, _ = subscribed(client, QUERY)
        orders.execute("UPDATE orders SET note = 'other' WHERE customer = 7")
        orders.execute("UPDATE orders SET status = 'other' WHERE customer = 3")
        orders.execute("INSERT INTO orders VALUES (2000, 7, 'last')")
        assert client.next_message(30.0) == Data(ack.subscription, Update.INSERT, ((b"2000", b"last"),))
        orders.execute("DELETE FROM orders WHERE id = 2000")


def test_ordinary_sql_works_on_the_same_connection(stack, orders):
    with stack.live() as client:
        client.query("BEGIN")
        ack, first, messages = subscribed(client, "SELECT * FROM orders WHERE id = $1 AND status <> 'gone'", ["3001"])
        assert first.rows == ()
        client.query("INSERT INTO orders VALUES (3001, 1, 'mine', 'n')")
        assert client.query("SELECT count(*) FROM orders WHERE id = 3001") == [(b"1",)]
        assert client.next_message(0.5) is None  # not committed
        client.query("COMMIT")
        assert next(messages) == Data(ack.subscription, Update.INSERT, ((b"3001", b"1", b"mine", b"n"),))
        client.unsubscribe(ack.subscription)
        client.query("DELETE FROM orders WHERE id = 3001")
        assert client.next_message(1.0) is None


def test_a_subscribe_contains_the_clients_own_commit(stack, orders):
    with stack.live() as client:
        for number in range(4000, 4003):
            client.query(f"INSERT INTO orders VALUES ({number}, 40, 'own')")
            ack, first, _ = subscribed(client, "SELECT id FROM orders WHERE customer = 40")
            assert (str(number).encode(),) in first.rows
            client.unsubscribe(ack.subscription)


def test_a_pause_is_caught_up_by_the_next_change(stack, orders):
    with stack.live() as client:
        ack, _, messages = subscribed(client, "SELECT id, status FROM orders WHERE customer = 50")
        client.pause(ack.subscription)
        client.query("INSERT INTO orders VALUES (5000, 50, 'a')")
        client.query("INSERT INTO orders VALUES (5001, 50, 'a')")
        client.query("DELETE FROM orders WHERE id = 5000")
        assert client.next_message(2.0) is None
        client.resume(ack.subscription)
        assert client.next_message(0.5) is None
        client.query("INSERT INTO orders VALUES (5002, 50, 'b')")
        message = next(messages)
        assert (message.update, sorted(message.rows)) == (Update.INSERT, [(b"5001", b"a"), (b"5002", b"b")])


def test_a_filter_narrows_the_result(stack, orders):
    with stack.live() as client:
        client.query("INSERT INTO orders VALUES (6000, 60, 'open'), (6001, 60, 'done')")
        ack, first, messages = subscribed(
            client, "SELECT id, status FROM orders WHERE customer = 60", (), "status = 'open'"
        )
        assert first.rows == ((b"6000", b"open"),)
        client.query("UPDATE orders SET status = 'done' WHERE id = 6000")
        assert next(messages) == Data(ack.subscription, Update.DELETE, ((b"6000", b"open"),))


def test_nonsense_and_what_has_effects_are_refused_in_words(stack, orders):
    def refused(client, *arguments):
        message = next(client.subscribe(*arguments))
        assert isinstance(message, Refused), message
        return message.subscription == NO_SUBSCRIPTION, message.message

    orders.execute("CREATE SEQUENCE shared_numbers")
    with stack.live() as client:
        zero, words = refused(client, "SELEKT * FORM orders")
        assert zero and words.startswith("Parse error: ")
        zero, words = refused(client, "SELECT id FROM orders", (), "SELECT * FROM")
        assert zero and words.startswith("Filter parse error: ")
        assert refused(client, "UPDATE orders SET status = 'x'") == (False, "Only SELECT queries can be subscribed to")
        assert refused(client, "SELECT * FROM nowhere") == (False, "Execution error: table 'nowhere' does not exist")
        _, words = refused(client, "SELECT nextval('shared_numbers')")
        assert "nextval" in words
        assert client.query("SELECT count(*) FROM orders WHERE status = 'x'") == [(b"0",)]
    with stack.connect() as connection:
        connection.execute("CREATE ROLE stranger LOGIN PASSWORD 'stranger'")
    parts = {**psycopg.conninfo.conninfo_to_dict(stack.gateway_dsn), "user": "stranger", "password": "stranger"}
    with LiveConnection(psycopg.conninfo.make_conninfo(**parts)) as client:
        assert refused(client, QUERY) == (False, "Execution error: permission denied for table 'orders'")
    with stack.connect() as connection:
        connection.execute("DROP ROLE stranger")


def test_joins_and_aggregates_reach_the_client_too(stack, orders):
    orders.execute("CREATE TABLE lines (id int PRIMARY KEY, order_id int NOT NULL, price numeric(10, 2) NOT NULL)")
    orders.execute("INSERT INTO orders VALUES (8000, 80, 'open'), (8001, 80, 'open'), (8002, 80, 'done')")
    orders.execute("INSERT INTO lines VALUES (1, 8000, 1.50), (2, 8000, 2.25), (3, 8001, 10), (4, 8002, 99)")
    sums = (
        "SELECT o.id, count(*), sum(l.price) FROM orders o JOIN lines l ON l.order_id = o.id "
        "WHERE o.customer = 80 AND o.status = 'open' GROUP BY o.id"
    )
    # PostgreSQL answers what Spark does not.
    list_of = "SELECT json_agg(id ORDER BY id)::text FROM orders WHERE customer = 80"
    with stack.live() as client, stack.live() as other:
        ack, first, messages = subscribed(client, sums)
        assert (ack.tables, sorted(first.rows)) == (2, [(b"8000", b"2", b"3.75"), (b"8001", b"1", b"10.00")])
        listed, held, of_list = subscribed(other, list_of)
        assert held.rows == ((b"[8000, 8001, 8002]",),)
        with orders.transaction():
            orders.execute("DELETE FROM lines WHERE id = 2")
            orders.execute("UPDATE orders SET status = 'open' WHERE id = 8002")
        rows = sorted(first.rows)
        while rows != answer(orders, sums):
            rows = merged(rows, next(messages))
        orders.execute("DELETE FROM orders WHERE id = 8001")
        assert next(messages) == Data(ack.subscription, Update.DELETE, ((b"8001", b"1", b"10.00"),))
        assert next(of_list) == Data(listed.subscription, Update.DELETE, ((b"[8000, 8001, 8002]",),))
        assert next(of_list) == Data(listed.subscription, Update.INSERT, ((b"[8000, 8002]",),))


def test_two_clients_share_a_query_and_both_learn(stack, orders):
    sql = "SELECT id FROM orders WHERE customer = 70"
    with stack.live() as one, stack.live() as other:
        first, _, of_one = subscribed(one, sql)
        one.query("INSERT INTO orders VALUES (7000, 70, 'x')")
        assert next(of_one) == Data(first.subscription, Update.INSERT, ((b"7000",),))
        second, held, of_other = subscribed(other, "select id from orders where customer = 70 -- the same")
        assert held.rows == ((b"7000",),)
        one.query("DELETE FROM orders WHERE id = 7000")
        assert next(of_one) == Data(first.subscription, Update.DELETE, ((b"7000",),))
        assert next(of_other) == Data(second.subscription, Update.DELETE, ((b"7000",),))
        other.unsubscribe(first.subscription)  # not its own: ignored
        one.query("INSERT INTO orders VALUES (7001, 70, 'x')")
        assert next(of_one) == Data(first.subscription, Update.INSERT, ((b"7001",),))
        assert next(of_other) == Data(second.subscription, Update.INSERT, ((b"7001",),))


def test_an_ordinary_client_cannot_tell_the_gateway_from_postgres(stack, orders):
    with psycopg.connect(stack.gateway_dsn, autocommit=True) as client:
        wide = client.execute("SELECT n, repeat('y', 1000) FROM generate_series(1, 5000) n").fetchall()
        assert (len(wide), wide[-1]) == (5000, (5000, "y" * 1000))
        client.execute("CREATE TEMP TABLE copied (n int, t text)")
        with client.cursor().copy("COPY copied FROM STDIN") as copy:
            for number in range(20_000):
                copy.write_row((number, "z" * 20))
        with client.cursor().copy("COPY copied TO STDOUT") as copy:
            assert sum(1 for _ in copy.rows()) == 20_000
        with pytest.raises(psycopg.errors.DivisionByZero):
            client.execute("SELECT 1 / %s", [0])
        with pytest.raises(psycopg.errors.QueryCanceled):
            client.execute("SET statement_timeout = 50; SELECT pg_sleep(10)")


def test_a_dropped_table_ends_its_subscriptions(stack, orders):
    with stack.live() as client:
        client.query("CREATE TABLE shortlived (id int PRIMARY KEY)")
        ack, _, messages = subscribed(client, "SELECT id FROM shortlived")
        client.query("DROP TABLE shortlived")
        words = "Subscription invalidated: table 'shortlived' was dropped"
        assert next(messages) == Refused(ack.subscription, words)


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["fanout", "recompute", "registry"])
def test_after_a_kill_the_next_change_still_arrives(stack, orders, victim):
    with stack.live() as client:
        _, first, messages = subscribed(client, "SELECT id, status FROM orders WHERE customer = 9")
        rows = sorted(first.rows)
        stack.kill(victim)
        orders.execute("INSERT INTO orders VALUES (9000, 9, %s)", [victim])
        stack.start(victim)
        began = time.monotonic()
        rows = merged(rows, next(messages))
        took_s = time.monotonic() - began
        assert rows == answer(orders, "SELECT id, status FROM orders WHERE customer = 9")
        print(f"the next change arrived {took_s:.1f} s after {victim} was started again")
        assert took_s < 110  # the client itself gives up after 120
        orders.execute("DELETE FROM orders WHERE id = 9000")
        rows = merged(rows, next(messages))
        assert rows == answer(orders, "SELECT id, status FROM orders WHERE customer = 9")
        # A new subscription works as well.
        stack.wait_ready(victim)
        _, again, _ = subscribed(client, "SELECT id FROM orders WHERE customer = 9 AND id > 10")
        assert sorted(again.rows) == answer(orders, "SELECT id FROM orders WHERE customer = 9 AND id > 10")
