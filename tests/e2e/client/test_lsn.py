"""With lsn=True a client knows when it holds a committed state, and which: its rows are what PostgreSQL held there."""

import time

import pytest
import tidewire
from tidewire import Initial

SQL = "SELECT id, owner, balance FROM accounts"


@pytest.fixture(scope="module")
def accounts(stack):
    with stack.connect() as connection:
        connection.execute("CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance int NOT NULL)")
        connection.execute("INSERT INTO accounts SELECT n, 'owner ' || n, 100 FROM generate_series(1, 20) n")
        yield connection


def as_number(lsn):
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)


async def test_after_each_batch_the_rows_are_a_committed_state(stack, accounts):
    """Money only moves, by transactions that also close and open accounts: any state in between would show."""
    async with (
        await tidewire.connect(stack.gateway_dsn, lsn=True) as live,
        live.subscribe(SQL, decode={"balance": int, "id": int}) as held,
    ):
        assert isinstance(await anext(held), Initial)
        for number in range(1, 10):
            with accounts.transaction():
                accounts.execute("UPDATE accounts SET balance = balance - 10 WHERE id = %s", [number])
                accounts.execute("INSERT INTO accounts VALUES (%s, 'new', 10)", [100 + number])
                accounts.execute(
                    "WITH gone AS (DELETE FROM accounts WHERE id = %s RETURNING balance)"
                    " UPDATE accounts SET balance = balance + (SELECT balance FROM gone) WHERE id = 20",
                    [10 + number],
                )
        end = accounts.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]
        wanted = set(accounts.execute(SQL).fetchall())
        places, deadline = [as_number(held.lsn)], time.monotonic() + 60
        while set(held.rows) != wanted:
            assert time.monotonic() < deadline
            change = await held.next(1.0)
            if change is not None:
                assert change.lsn is not None and change.lsn == held.lsn
                assert not held.at_commit or sum(row[2] for row in held.rows) == 2000
                if as_number(change.lsn) > places[-1]:
                    places.append(as_number(change.lsn))
        assert held.at_commit
        assert places == sorted(places) and places[0] < places[-1] <= as_number(end)
