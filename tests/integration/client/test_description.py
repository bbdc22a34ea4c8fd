"""What the client learns of a query before it subscribes: names, and a key only where it is plain."""

import psycopg
import pytest
import tidewire
from tidewire.description import place_of

DDL = """
CREATE TABLE orders (id int PRIMARY KEY, customer int, status text);
CREATE TABLE items (order_id int, goods int, pieces int, PRIMARY KEY (goods, order_id));
CREATE TABLE visits (page text);
CREATE TABLE parted (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE renamed (old int, gone int, code text PRIMARY KEY);
ALTER TABLE renamed DROP COLUMN gone;
CREATE VIEW open_orders AS SELECT * FROM orders WHERE status = 'open';
"""


@pytest.mark.parametrize(
    ("sql", "names", "key"),
    [
        ("SELECT * FROM orders WHERE customer = $1", ("id", "customer", "status"), (0,)),
        ("SELECT status, id AS number FROM orders o", ("status", "number"), (1,)),
        ("SELECT upper(status), id, id + 1 AS next FROM orders", ("upper", "id", "next"), (1,)),
        ("SELECT pieces, order_id, goods FROM items", ("pieces", "order_id", "goods"), (2, 1)),
        ("SELECT pieces, goods FROM items WHERE order_id = 1", ("pieces", "goods"), None),
        ("SELECT a.id, b.id FROM orders a JOIN orders b ON a.customer = b.customer", ("id", "id"), None),
        ("SELECT o.id, i.goods FROM orders o JOIN items i ON i.order_id = o.id", ("id", "goods"), None),
        ("SELECT status, count(*) FROM orders GROUP BY status", ("status", "count"), None),
        ("SELECT * FROM open_orders", ("id", "customer", "status"), None),
        ("SELECT * FROM visits", ("page",), None),
        ("SELECT day, id FROM parted", ("day", "id"), (1, 0)),
        ("SELECT * FROM renamed", ("old", "code"), (1,)),
        ("SELECT 1 AS one", ("one",), None),
        ("SELEKT", (), None),
        ("SELECT * FROM nowhere", (), None),
    ],
)
async def test_names_and_key(database, sql, names, key):
    with psycopg.connect(database) as connection:
        connection.execute(DDL)
    async with await tidewire.connect(database) as live:
        described = await live.describe(sql)
        assert (tuple(column.name for column in described.columns), described.key) == (names, key)
        assert await live.query("SELECT count(*) FROM pg_prepared_statements") == [("0",)]


async def test_a_transaction_of_the_user_s_is_not_touched(database):
    with psycopg.connect(database) as connection:
        connection.execute(DDL)
    async with await tidewire.connect(database) as live:
        await live.query("BEGIN")
        await live.query("INSERT INTO orders VALUES (1, 1, 'open')")
        assert (await live.describe("SELECT * FROM nowhere")).columns == ()
        assert (await live.describe("SELECT * FROM items")).key == (1, 0)
        locks = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'items'::regclass"
        assert await live.query(locks) == [("0",)]
        assert await live.query("SELECT status FROM orders; COMMIT") == [("open",)]
        assert await live.query("SELECT status FROM orders") == [("open",)]


def test_a_column_is_named_by_name_or_place():
    with pytest.raises(ValueError, match="names no one column"):
        place_of("id", ())
    assert place_of(2, ()) == 2
