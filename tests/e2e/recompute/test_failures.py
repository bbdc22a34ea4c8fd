"""A query that fails has an error of its own; the others go on, and it recovers when the data do."""

import pytest

DIVISION_BY_ZERO, OUT_OF_RANGE = "22012", "22003"


@pytest.fixture
def numbers(connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, v int NOT NULL, w smallint NOT NULL)")
    connection.execute(f"INSERT INTO {own} SELECT n, n, 1 FROM generate_series(1, 10) n")
    return own


def failed(road, follower, sqlstate):
    road.until(lambda: follower.error is not None, f"the error of {follower.query.sql}")
    assert follower.error.sqlstate == sqlstate, follower.error
    assert follower.rows.total() == 0


def recovered(road, follower):
    road.until(lambda: follower.error is None, f"the recovery of {follower.query.sql}")
    first_good = follower.seen[max(n for n, seen in enumerate(follower.seen) if seen.kind == "ERROR") + 1]
    assert (first_good.kind, first_good.reason) == ("FULL", "RECOVERED")
    road.holds(follower)


def test_an_update_makes_one_query_divide_by_zero_and_another_heals_it(road, connection, numbers):
    shares = road.good(f"SELECT id, 100 / v FROM {numbers}")
    total = road.good(f"SELECT sum(100 / v) FROM {numbers}")
    bystanders = [road.good(f"SELECT id, v FROM {numbers} WHERE v < 5"), road.good(f"SELECT count(*) FROM {numbers}")]

    connection.execute(f"UPDATE {numbers} SET v = 0 WHERE id = 3")
    failed(road, shares, DIVISION_BY_ZERO)
    failed(road, total, DIVISION_BY_ZERO)
    assert "division by zero" in shares.error.message
    connection.execute(f"INSERT INTO {numbers} VALUES (11, 4, 1)")
    road.holds(*bystanders)
    assert all(seen.kind != "ERROR" for one in bystanders for seen in one.seen)
    assert len([seen for seen in shares.seen if seen.kind == "ERROR"]) == 1, "the same error was told twice"

    connection.execute(f"UPDATE {numbers} SET v = 50 WHERE id = 3")
    recovered(road, shares)
    recovered(road, total)
    connection.execute(f"UPDATE {numbers} SET v = 25 WHERE id = 3")
    road.holds(shares, total, *bystanders)


def test_one_parameter_fails_and_the_others_of_its_template_do_not(road, connection, numbers):
    sql = f"SELECT id, 100 / (v - {{}}) FROM {numbers} WHERE id < 5"
    good = [road.good(sql.format(number)) for number in (20, 30, 40)]
    bad = road.subscribe(sql.format(2))
    failed(road, bad, DIVISION_BY_ZERO)
    connection.execute(f"UPDATE {numbers} SET v = 30 WHERE id = 1")
    failed(road, good[1], DIVISION_BY_ZERO)
    road.holds(good[0], good[2])
    connection.execute(f"UPDATE {numbers} SET v = 8 WHERE id IN (1, 2)")
    for follower in (good[1], bad):
        recovered(road, follower)
    road.holds(*good)


@pytest.mark.parametrize(
    ("sql", "poison", "remedy"),
    [
        ("SELECT id, v * 2 FROM {}", "v = 2000000000", "v = 7"),
        ("SELECT id, v::smallint FROM {}", "v = 40000", "v = 7"),
        ("SELECT sum(v)::int FROM {}", "v = 2147483647", "v = 7"),
        ("SELECT id, w + 32767::smallint - w FROM {} WHERE w > 0", "w = 2", "w = 0"),
    ],
    ids=["product", "cast", "sum", "smallint"],
)
def test_what_overflows_is_an_error_until_it_fits_again(road, connection, numbers, sql, poison, remedy):
    connection.execute(f"UPDATE {numbers} SET w = 0")
    follower = road.good(sql.format(numbers))
    bystander = road.good(f"SELECT id, v, w FROM {numbers}")
    connection.execute(f"UPDATE {numbers} SET {poison} WHERE id = 4")
    failed(road, follower, OUT_OF_RANGE)
    road.holds(bystander)
    connection.execute(f"UPDATE {numbers} SET {remedy} WHERE id = 4")
    recovered(road, follower)


def test_a_query_that_fails_from_the_start_says_so_and_comes_to_life(road, connection, numbers):
    connection.execute(f"UPDATE {numbers} SET v = 0 WHERE id = 1")
    follower = road.subscribe(f"SELECT id, 7 % v FROM {numbers}")
    failed(road, follower, DIVISION_BY_ZERO)
    connection.execute(f"DELETE FROM {numbers} WHERE id = 1")
    recovered(road, follower)


def test_a_cast_of_text_that_is_no_number_fails_alone(road, connection, numbers):
    connection.execute(f"ALTER TABLE {numbers} ADD COLUMN t text DEFAULT '12'")
    follower = road.good(f"SELECT id, t::int FROM {numbers} WHERE id < 3")
    bystander = road.good(f"SELECT id, t FROM {numbers} WHERE id < 3")
    connection.execute(f"UPDATE {numbers} SET t = 'twelve' WHERE id = 2")
    failed(road, follower, "22P02")
    assert follower.error.message == 'invalid input syntax for type integer: "twelve"'
    road.holds(bystander)
    connection.execute(f"UPDATE {numbers} SET t = ' 13 ' WHERE id = 2")
    recovered(road, follower)
