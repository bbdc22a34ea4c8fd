"""No torn state: whatever is told of accounts between which money moves, the money is all there."""

import random
import threading
from decimal import Decimal

import pytest

WRITERS, ACCOUNTS = 8, 20
# The writers go on until so many transfers are committed and so many states of each query were told.
TRANSFERS, STATES = 500, 10
OPENING = Decimal("1000.00")
TOTAL = 2 * ACCOUNTS * OPENING


def transfer_until(enough, road, own, seed, done):
    """Transfers in both directions, some of them through savepoints that are rolled back."""
    dice = random.Random(seed)
    with road.connect(autocommit=False) as connection:
        while not enough.wait(0.02):
            amount = Decimal(dice.randrange(-9999, 9999)) / 100
            giver, taker = dice.randrange(ACCOUNTS), dice.randrange(ACCOUNTS)
            take = f"UPDATE {own}_checking SET balance = balance - %s WHERE id = %s"
            connection.execute(take, [amount, giver])
            if dice.random() < 0.2:
                connection.execute("SAVEPOINT regretted")
                connection.execute(f"UPDATE {own}_savings SET balance = balance + 1 WHERE id = %s", [taker])
                connection.execute("ROLLBACK TO SAVEPOINT regretted")
            connection.execute(f"UPDATE {own}_savings SET balance = balance + %s WHERE id = %s", [amount, taker])
            if dice.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()
                done.append(seed)


def money(rows, columns):
    return sum(Decimal(row[column].decode()) * weight for row, weight in rows.items() for column in columns)


def told(follower):
    return [seen for seen in follower.seen if seen.kind == "NET"]


@pytest.mark.slow
def test_every_published_state_has_the_same_total(road, connection, own):
    for table in (f"{own}_checking", f"{own}_savings"):
        connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, balance numeric(12, 2) NOT NULL)")
        connection.execute(f"INSERT INTO {table} SELECT n, {OPENING} FROM generate_series(0, {ACCOUNTS - 1}) n")
    both = f"{own}_checking c JOIN {own}_savings s ON s.id = c.id"
    union = f"SELECT 'c' AS kind, id, balance FROM {own}_checking UNION ALL SELECT 's', id, balance FROM {own}_savings"
    sums = [
        road.good(f"SELECT sum(a.balance) FROM ({union}) a"),
        road.good(f"SELECT sum(c.balance + s.balance) FROM {both}"),
    ]
    each = {
        road.good(f"SELECT c.id, c.balance, s.balance FROM {both}"): (1, 2),
        road.good(union): (2,),
        # Not for Spark: PostgreSQL runs it, and its answers are placed in the log.
        road.good(f"SELECT c.id, c.balance, s.balance, json_build_array(c.id)::text FROM {both}"): (1, 2),
    }
    assert road.strategy(list(each)[2]) == "source"
    assert [road.strategy(one) for one in (*sums, *list(each)[:2])] == ["full"] * 4

    done: list[int] = []
    enough = threading.Event()
    writers = [threading.Thread(target=transfer_until, args=(enough, road, own, seed, done)) for seed in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        road.until(
            lambda: len(done) >= TRANSFERS and all(len(told(one)) >= STATES for one in each),
            lambda: f"states: {[len(told(one)) for one in each]} after {len(done)} transfers",
            240,
        )
    finally:
        enough.set()
        for writer in writers:
            writer.join()
    road.holds(*sums, *each)

    for follower in sums:
        assert {row for seen in follower.seen for row in seen.rows} == {(str(TOTAL).encode(),)}
    for follower, columns in each.items():
        assert {money(seen.rows, columns) for seen in follower.seen} == {TOTAL}, follower.query.sql
        # Ids are told once each in every state: a torn one would show an account twice or not at all.
        assert {seen.rows.total() for seen in follower.seen} == {follower.rows.total()}
