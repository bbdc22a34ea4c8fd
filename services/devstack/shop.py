"""A small shop that sells all day: the schema and the writer of the demo."""

import random
from threading import Event, Thread

import psycopg

SCHEMA = "shop"
TABLES = ("customers", "goods", "orders", "items", "visits")

_DDL = """
DROP SCHEMA IF EXISTS shop CASCADE;
CREATE SCHEMA shop;
CREATE TABLE shop.customers (id int PRIMARY KEY, name text NOT NULL, city text NOT NULL);
CREATE TABLE shop.goods (
    id int PRIMARY KEY, name text NOT NULL, category text NOT NULL, price numeric(10, 2) NOT NULL, stock int NOT NULL);
CREATE TABLE shop.orders (
    id int PRIMARY KEY, customer int NOT NULL REFERENCES shop.customers, status text NOT NULL DEFAULT 'new',
    placed timestamptz NOT NULL DEFAULT now());
CREATE TABLE shop.items (
    order_id int REFERENCES shop.orders ON DELETE CASCADE, goods int REFERENCES shop.goods, pieces int NOT NULL,
    PRIMARY KEY (order_id, goods));
CREATE TABLE shop.visits (page text, seconds real);  -- no key, as logs often have none
INSERT INTO shop.customers VALUES (1, 'Ada', 'London'), (2, 'Jürgen', 'Köln'), (3, '美咲', '大阪'), (4, 'Zoë', 'Paris');
INSERT INTO shop.goods VALUES
    (1, 'green tea', 'tea', 4.50, 500), (2, 'cup', 'china', 12.00, 200), (3, 'pot', 'china', 39.90, 80),
    (4, 'honey', 'sweets', 7.25, 300), (5, 'black tea', 'tea', 3.80, 500), (6, 'biscuits', 'sweets', 2.95, 400);
INSERT INTO shop.orders SELECT n, 1 + n % 4, 'paid' FROM generate_series(1, 6) n;
INSERT INTO shop.items SELECT n, n, 2 FROM generate_series(1, 6) n;
"""
FIRST_ORDER = 7

# What the demo shows live: joined, aggregated, and of one row a category.
REVENUE = """
SELECT g.category, sum(i.pieces) AS pieces, sum(i.pieces * g.price) AS revenue
FROM shop.orders o JOIN shop.items i ON i.order_id = o.id JOIN shop.goods g ON g.id = i.goods
WHERE o.status IN ('paid', 'shipped')
GROUP BY g.category
"""


def open_shop(connection: psycopg.Connection) -> None:
    connection.execute(_DDL)


class Till:
    """Writes orders until it is closed: sales, payments, shipments, cancellations, deletions, a transaction each."""

    def __init__(self, dsn: str, *, pause_s: float) -> None:
        self._dsn, self._pause_s = dsn, pause_s
        self._chance = random.Random()
        self._closed = Event()
        self._thread = Thread(target=self._run, name="till", daemon=True)
        self._next_order = FIRST_ORDER
        self._failure: Exception | None = None
        self.committed = 0

    def __enter__(self) -> "Till":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what is under way; raises what went wrong, if anything did."""
        self._closed.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        doings = (
            self._sell,
            self._sell,
            self._sell,
            self._pay,
            self._pay,
            self._pay,
            self._ship,
            self._change_mind,
            self._cancel,
            self._visit,
        )
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                while not self._closed.wait(self._pause_s):
                    self._chance.choice(doings)(connection)
        except psycopg.Error as error:
            self._failure = error

    def _sell(self, connection: psycopg.Connection) -> None:
        with connection.transaction():
            number, self._next_order = self._next_order, self._next_order + 1
            connection.execute("INSERT INTO shop.orders VALUES (%s, %s)", (number, self._chance.randint(1, 4)))
            for goods in self._chance.sample(range(1, 7), self._chance.randint(1, 3)):
                pieces = self._chance.randint(1, 3)
                connection.execute("INSERT INTO shop.items VALUES (%s, %s, %s)", (number, goods, pieces))
                connection.execute("UPDATE shop.goods SET stock = stock - %s WHERE id = %s", (pieces, goods))
        self.committed += 1

    def _pay(self, connection: psycopg.Connection) -> None:
        self._move(connection, "new", "paid")

    def _ship(self, connection: psycopg.Connection) -> None:
        self._move(connection, "paid", "shipped")

    def _move(self, connection: psycopg.Connection, status: str, following: str) -> None:
        """The oldest order of a status goes on to the next one."""
        moved = connection.execute(
            "UPDATE shop.orders SET status = %s WHERE id = (SELECT min(id) FROM shop.orders WHERE status = %s)",
            (following, status),
        ).rowcount
        self.committed += moved

    def _cancel(self, connection: psycopg.Connection) -> None:
        deleted = connection.execute(
            "DELETE FROM shop.orders WHERE id = (SELECT max(id) FROM shop.orders WHERE status = 'new')"
        ).rowcount
        self.committed += deleted

    def _visit(self, connection: psycopg.Connection) -> None:
        page = self._chance.choice(("/", "/tea", "/basket"))
        connection.execute("INSERT INTO shop.visits VALUES (%s, %s)", (page, self._chance.random() * 30))
        self.committed += 1

    def _change_mind(self, connection: psycopg.Connection) -> None:
        """A transaction that is rolled back: nobody downstream may ever hear of it."""
        with connection.transaction(force_rollback=True):
            connection.execute("UPDATE shop.goods SET stock = 0")
