"""Results that incremental operators keep are PostgreSQL's own, commit by commit."""

import random

import pytest

QUERIES = (
    "SELECT id, amount FROM {o} WHERE status = 'new'",
    "SELECT o.id, c.name, o.amount FROM {o} o JOIN {c} c ON c.id = o.customer",
    "SELECT c.id, c.name, count(o.id), sum(o.amount) FROM {c} c LEFT JOIN {o} o ON o.customer = c.id GROUP BY c.id",
    "SELECT status, count(*), sum(amount), min(amount), max(amount) FROM {o} GROUP BY status",
    "SELECT id, amount FROM {o} ORDER BY amount DESC, id LIMIT 5",
    "SELECT c.id FROM {c} c WHERE NOT EXISTS (SELECT 1 FROM {o} o WHERE o.customer = c.id)",
    "SELECT DISTINCT status FROM {o}",
    "SELECT id, amount FROM {o} ORDER BY amount, id",
)


@pytest.mark.slow
def test_operators_take_over_and_stay_exact(road, connection, own):
    road.leave(road.worker)
    road.start_worker(incremental="true").wait_ready()
    orders, customers = f"{own}_orders", f"{own}_customers"
    connection.execute(f"CREATE TABLE {customers} (id int PRIMARY KEY, name text)")
    connection.execute(
        f'CREATE TABLE {orders} (id int PRIMARY KEY, customer int, amount numeric(10,2), status text COLLATE "C")'
    )
    connection.execute(f"INSERT INTO {customers} SELECT n, 'name ' || n FROM generate_series(1, 20) n")
    connection.execute(
        f"INSERT INTO {orders} SELECT n, n % 25, n * 3 % 50, (ARRAY['new', 'paid', NULL])[1 + n % 3] "
        "FROM generate_series(1, 200) n"
    )
    followers = [road.good(sql.format(o=orders, c=customers)) for sql in QUERIES]
    followers += [
        road.good(f"SELECT id, amount FROM {orders} WHERE customer = $1", str(number).encode()) for number in (1, 2, 77)
    ]
    templates = {one.query.template_id.hex() for one in followers}
    road.until(
        lambda: templates <= {line["template"] for line in road.worker.said("query_incremental")},
        lambda: f"kept whole: {road.worker.said('query_not_incremental')}",
        60,
    )
    dice = random.Random(5)
    for number in range(40):
        _change(connection, orders, customers, dice)
        if number % 8 == 0:
            road.holds(*followers)
    road.holds(*followers)
    late = road.good(f"SELECT id, amount FROM {orders} WHERE customer = $1", b"3")
    connection.execute(f"TRUNCATE {orders}")
    connection.execute(f"INSERT INTO {orders} VALUES (1, 3, 1, 'new'), (2, NULL, NULL, NULL)")
    road.holds(*followers, late)
    road.leave(road.worker)


def _change(connection, orders, customers, dice) -> None:
    key = dice.randrange(1, 220)
    with connection.transaction():
        match dice.randrange(5):
            case 0:
                connection.execute(f"DELETE FROM {orders} WHERE id = %s", [key])
            case 1:
                connection.execute(f"INSERT INTO {orders} VALUES (%s, 3, 9.99, 'sent') ON CONFLICT DO NOTHING", [key])
            case 2:
                connection.execute(
                    f"UPDATE {orders} SET amount = amount + 1, customer = 2 WHERE id %% 7 = %s", [key % 7]
                )
            case 3:
                connection.execute(f"UPDATE {orders} SET id = id + 1000, status = NULL WHERE id = %s", [key])
            case _:
                connection.execute(f"UPDATE {customers} SET name = name || 'x' WHERE id = %s", [key % 20])
                connection.execute(f"DELETE FROM {customers} WHERE id = %s", [key % 90])
