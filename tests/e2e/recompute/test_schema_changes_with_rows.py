"""Schema changes in the transaction that also writes rows, and of types that rows are printed by."""

from collections import Counter

import pytest


@pytest.fixture
def whole(road, connection, own):
    """A partitioned table and an inherited one."""
    connection.execute(f"CREATE TABLE {own} (id int, v int, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    connection.execute(f"CREATE TABLE {own}_1 PARTITION OF {own} FOR VALUES FROM (0) TO (100)")
    connection.execute(f"CREATE TABLE {own}_parent (id int PRIMARY KEY, v int)")
    connection.execute(f"INSERT INTO {own} VALUES (1, 1); INSERT INTO {own}_parent VALUES (1, 1)")
    return own


CREATED = {
    "partition": ("", "CREATE TABLE {0}_2 PARTITION OF {0} FOR VALUES FROM (100) TO (200)", "{0}", 100),
    "default partition": ("", "CREATE TABLE {0}_2 PARTITION OF {0} DEFAULT", "{0}", 100),
    "attached": (
        "CREATE TABLE {0}_2 (id int PRIMARY KEY, v int)",
        "ALTER TABLE {0} ATTACH PARTITION {0}_2 FOR VALUES FROM (100) TO (200)",
        "{0}",
        100,
    ),
    "child": ("", "CREATE TABLE {0}_parent_2 (PRIMARY KEY (id)) INHERITS ({0}_parent)", "{0}_parent_2", 5),
    "made a child": (
        "CREATE TABLE {0}_parent_2 (id int PRIMARY KEY, v int)",
        "ALTER TABLE {0}_parent_2 INHERIT {0}_parent",
        "{0}_parent_2",
        5,
    ),
}


@pytest.mark.parametrize("kind", CREATED)
@pytest.mark.parametrize("shape", ["SELECT id FROM {}", "SELECT count(*) FROM {}", "SELECT json_agg(id)::text FROM {}"])
def test_a_member_that_is_made_and_written_in_one_transaction_is_one_state(road, connection, whole, kind, shape):
    before, made, into, number = CREATED[kind]
    connection.execute(before.format(whole).encode())
    root = f"{whole}_parent" if "parent" in into else whole
    follower = road.good(shape.format(root))
    with connection.transaction():
        connection.execute(f"INSERT INTO {root} VALUES (2, 2)")
        connection.execute(made.format(whole).encode())
        connection.execute(f"INSERT INTO {into.format(whole)} VALUES ({number}, 1)")
    road.holds(follower)
    first, last = follower.seen[0].rows, road.answer(follower.query)
    assert all(seen.rows in (first, Counter(last)) for seen in follower.seen), follower.seen
    with connection.transaction():
        connection.execute(f"UPDATE {root} SET id = id + 20 WHERE id <= 5")
        connection.execute(f"DELETE FROM {root} WHERE id >= 100")
    road.holds(follower)


def test_types_whose_values_are_renamed_print_the_new_text(road, connection, own):
    connection.execute(f"CREATE TYPE {own}_mood AS ENUM ('sad', 'glad')")
    connection.execute(f"CREATE TYPE {own}_pair AS (a int)")
    connection.execute(f"CREATE DOMAIN {own}_moods AS {own}_mood")
    connection.execute(
        f"CREATE TABLE {own} (id int PRIMARY KEY, m {own}_mood, p {own}_pair, l {own}_mood[], d {own}_moods)"
    )
    connection.execute(
        f"INSERT INTO {own} VALUES (1, 'sad', row(1), '{{sad,glad}}', 'sad'), (2, 'glad', row(2), '{{sad}}', 'glad')"
    )
    followers = [
        road.good(f"SELECT id, m, l, d FROM {own}"),
        road.good(f"SELECT id, p FROM {own}"),
        road.good(f"SELECT m, count(*) FROM {own} GROUP BY m"),
        road.good(f"SELECT id FROM {own} WHERE m = 'sad'"),
        road.good(f"SELECT id, p::text, m::text FROM {own}"),
        road.good(f"SELECT json_agg(m)::text FROM {own}"),
    ]
    connection.execute(f"ALTER TYPE {own}_pair ADD ATTRIBUTE b text")
    road.holds(*followers)
    connection.execute(f"UPDATE {own} SET p = row(id, 'new') WHERE id = 1")
    road.holds(*followers)
    connection.execute(f"ALTER TYPE {own}_pair RENAME ATTRIBUTE b TO c")
    connection.execute(f"ALTER TYPE {own}_mood RENAME VALUE 'glad' TO 'content'")
    road.holds(*(one for one in followers if "sad" not in one.query.sql))
    connection.execute(f"UPDATE {own} SET m = 'content' WHERE id = 1")
    connection.execute(f"ALTER TYPE {own}_mood ADD VALUE 'merry'")
    connection.execute(f"UPDATE {own} SET m = 'merry', l = '{{merry}}' WHERE id = 2")
    road.holds(*followers)


def test_keys_that_are_swapped_in_one_update_are_both_there(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (k int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text)")
    connection.execute(f"CREATE TABLE {own}_now (k int PRIMARY KEY DEFERRABLE, v text)")
    for name in (own, f"{own}_now"):
        connection.execute(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    followers = [
        road.good(shape.format(name))
        for name in (own, f"{own}_now")
        for shape in ("SELECT k, v FROM {}", "SELECT count(*), min(v) FROM {}", "SELECT v FROM {} WHERE k = 2")
    ]
    connection.execute(f"UPDATE {own} SET k = 3 - k WHERE k < 3; UPDATE {own}_now SET k = 4 - k")
    road.holds(*followers)
    with connection.transaction():
        connection.execute(f"INSERT INTO {own} VALUES (1, 'twice')")
        connection.execute(f"DELETE FROM {own} WHERE v = 'b'")
    road.holds(*followers)
    for name in (own, f"{own}_now"):
        connection.execute(f"ALTER TABLE {name} DROP CONSTRAINT {name}_pkey, ADD PRIMARY KEY (k)")
        connection.execute(f"UPDATE {name} SET v = v || '!' WHERE k = 2")
    road.holds(*followers)
    connection.execute(f"ALTER TABLE {own} DROP CONSTRAINT {own}_pkey, ADD PRIMARY KEY (k) DEFERRABLE")
    connection.execute(f"UPDATE {own} SET k = 3 - k WHERE k < 3")
    road.holds(*followers)


def test_whole_results_while_a_table_becomes_unfit_or_is_taken_anew_are_states_that_were_committed(
    road, connection, own
):
    """Each transaction writes both tables alike, so that a result at one place tells what the other one's must be."""
    for name in (own, f"{own}_twin"):
        connection.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, n numeric(10, 2))")
        connection.execute(f"INSERT INTO {name} SELECT n, n FROM generate_series(1, 50) n")
    shapes = ("SELECT count(*) FROM {}", "SELECT id FROM {} WHERE n > 3", "SELECT max(id), sum(n) FROM {}")
    followers = [road.good(shape.format(own)) for shape in shapes]
    twins = [road.good(shape.format(f"{own}_twin")) for shape in shapes]
    for number in range(60, 72):
        with connection.transaction():
            for name in (own, f"{own}_twin"):
                connection.execute(f"INSERT INTO {name} VALUES ({number}, {number})")
            if number == 62:
                connection.execute(f"INSERT INTO {own} VALUES (0, 'NaN')")
                connection.execute(f"INSERT INTO {own}_twin VALUES (0, 'NaN')")
            if number == 66:
                connection.execute(f"ALTER TABLE {own} ALTER COLUMN n TYPE numeric(12, 2)")
        road.catch_up(*followers, *twins)
    for one, twin in zip(followers, twins, strict=True):
        there = {seen.standing.lsn: seen.rows for seen in twin.seen}
        assert {
            seen.standing.lsn: seen.rows for seen in one.seen if seen.standing.lsn in there
        }.items() <= there.items()
    road.holds(*followers, *twins)
