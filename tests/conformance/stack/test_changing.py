"""What becomes of a result when its order, its tables or its own success change."""

import pytest

from proto.pgwire.live import Data, Refused, Update
from tests.conformance.stack.sandbox import Subscribed, kind, refused


def test_v25_a_change_of_order_is_a_full_where_the_query_asks_for_an_order_and_nothing_elsewhere(sandbox):
    """Decision 3, errata 2.1, point 3."""
    table = sandbox.table("id int PRIMARY KEY, n int")
    sandbox.write(f"INSERT INTO {table} VALUES (1, 10), (2, 20), (3, 30)")
    with sandbox.client() as client, sandbox.client() as other:
        ordered = Subscribed(client, f"SELECT id FROM {table} ORDER BY n")
        unordered = Subscribed(other, f"SELECT id FROM {table}")
        assert ordered.rows == [(b"1",), (b"2",), (b"3",)]
        sandbox.write(f"UPDATE {table} SET n = -n")
        assert ordered.next() == Data(ordered.id, Update.FULL, ((b"3",), (b"2",), (b"1",)))
        sandbox.write(f"DELETE FROM {table} WHERE id = 2")
        assert unordered.next() == Data(unordered.id, Update.DELETE, ((b"2",),))
        ordered.until([(b"3",), (b"1",)])


def test_v34_keys_that_move_up_by_one_come_to_the_same_rows(sandbox):
    """Each row but the ends is one that went and one that came under the same key."""
    table = sandbox.table("id int, a text, b text, PRIMARY KEY (id) DEFERRABLE")
    sandbox.write(f"INSERT INTO {table} SELECT n, 'a' || n, 'b' FROM generate_series(1, 5) n")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        sandbox.write(f"UPDATE {table} SET id = id + 1")
        held.until(sandbox.read(f"SELECT * FROM {table}"))
        sandbox.write(f"UPDATE {table} SET id = 7 - id")
        held.until(sandbox.read(f"SELECT * FROM {table}"))


def test_v42_a_row_of_a_hundred_columns_goes_in_part_by_its_bitmap(sandbox):
    others = [f"c{number}" for number in range(1, 100)]
    table = sandbox.table(", ".join(["id int PRIMARY KEY", *(f"{name} int DEFAULT 0" for name in others)]))
    sandbox.write(f"INSERT INTO {table} VALUES (1)")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        sandbox.write(f"UPDATE {table} SET c7 = 7, c8 = 8, c99 = NULL")
        message = held.next()
        assert (kind(message), message.rows[0].values) == ("F7", {0: b"1", 7: b"7", 8: b"8", 99: None})


def test_v32_truncate_empties_the_result(sandbox):
    """Decision 15: deltas or a Full."""
    table = sandbox.table("id int PRIMARY KEY")
    sandbox.write(f"INSERT INTO {table} VALUES (1), (2)")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        sandbox.write(f"TRUNCATE {table}", f"INSERT INTO {table} VALUES (3)")
        held.until([(b"3",)])
        assert kind(held.messages[0]) in (Update.FULL, Update.DELETE)


def test_v38_a_column_that_is_added_comes_with_a_full_and_one_that_is_dropped_ends_what_names_it(sandbox):
    """Decision 14."""
    table = sandbox.table("id int PRIMARY KEY, n int")
    sandbox.write(f"INSERT INTO {table} VALUES (1, 1)")
    sandbox.wait_for_nobody()
    with sandbox.client() as client, sandbox.client() as other:
        every, named = Subscribed(client, f"SELECT * FROM {table}"), Subscribed(other, f"SELECT id, n FROM {table}")
        sandbox.write(f"ALTER TABLE {table} ADD COLUMN t text DEFAULT 'x'")
        every.until([(b"1", b"1", b"x")])
        assert kind(every.messages[-1]) is Update.FULL
        sandbox.write(f"ALTER TABLE {table} DROP COLUMN n")
        words = 'Subscription invalidated: column "n" does not exist'
        assert other.live() == Refused(named.id, words)
        every.until([(b"1", b"x")])
        sandbox.write(f"ALTER TABLE {table} ADD COLUMN n int DEFAULT 5")
        every.until([(b"1", b"x", b"5")])
        assert sandbox.metrics()["vibesql_subscriptions_active"] == 1, "it was removed, and does not come back"


def test_v36_a_query_that_fails_later_says_so_under_its_id_and_comes_back_whole(sandbox):
    table = sandbox.table("id int PRIMARY KEY, n int")
    sandbox.write(f"INSERT INTO {table} VALUES (1, 1)")
    with sandbox.client() as client:
        held = Subscribed(client, f"SELECT id, 10 / n FROM {table}")
        sandbox.write(f"UPDATE {table} SET n = 0")
        message = client.live()
        assert isinstance(message, Refused) and message.subscription == held.id
        assert "division by zero" in message.message
        sandbox.write(f"UPDATE {table} SET n = 5")
        assert held.next() == Data(held.id, Update.FULL, ((b"1", b"2"),))
        sandbox.write(f"INSERT INTO {table} VALUES (2, 10)")
        assert held.next() == Data(held.id, Update.INSERT, ((b"2", b"1"),))


@pytest.mark.parametrize(
    "sql",
    [
        "  \n select id from {0} ; \n",
        "/* first */ SELECT id FROM {0} -- last",
        "(SELECT id FROM {0})",
        "TABLE {0}",
        "SELECT a.id, b.id FROM {0} a, {0} b",
        "SELECT id, id, 1, 1 FROM {0}",
        'SELECT id AS "select", n AS "Mixed Case" FROM {0}',
        "SELECT id FROM {0} ORDER BY id DESC LIMIT 1 OFFSET 1",
        "SELECT FROM {0}",
    ],
)
def test_v18_however_a_select_is_written_it_is_answered_as_postgres_answers_it(sandbox, sql):
    table = sandbox.table("id int PRIMARY KEY, n int")
    sandbox.write(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    query = sql.format(table)
    with sandbox.client() as client:
        held = Subscribed(client, query)
        assert sorted(held.rows) == sandbox.read(query)
        sandbox.write(f"INSERT INTO {table} VALUES (3, 3)")
        held.until(sandbox.read(query))


def test_v40_a_filter_on_what_is_not_in_the_result_is_an_error_and_not_silence(sandbox):
    table = sandbox.table("id int PRIMARY KEY, n int")
    with sandbox.client() as client:
        for query, filter in (
            (f"SELECT id FROM {table}", "n = 1"),
            (f"SELECT id FROM {table}", "nothing IS NULL"),
            (f"SELECT a.id, b.id FROM {table} a, {table} b", "id = 1"),
        ):
            message = refused(client, query, filter=filter)
            assert message.message.startswith("Execution error: ") and message.subscription.version == 4
