"""A table in Spark is the table in PostgreSQL, at every commit."""

import pytest

from services.recompute.core.limits import ReplicaLimits


def is_same(replicas, watched, table):
    """Whether Spark's table is PostgreSQL's, behind all that was committed before this call."""
    replicas.reach(watched.barrier())
    return replicas.rows(table) == watched.rows(table)


def test_a_table_is_copied_in_parts_and_kept_up(replicas, watched):
    table = watched.create("id int PRIMARY KEY, name text, price numeric(10,2), at timestamptz, tags text[]")
    watched.execute(
        f"INSERT INTO {table.name} SELECT n, CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN E'a\"b\\n,\\\\' "
        "ELSE 'n' || n END, n / 7.0, CASE WHEN n % 11 = 0 THEN 'infinity' ELSE '2024-02-29 12:00'::timestamptz "
        "+ n * interval '1 hour' END, ARRAY['x', NULL, n::text] FROM generate_series(1, 5000) n"
    )
    replicas.load(table)
    assert is_same(replicas, watched, table)
    watched.execute(f"UPDATE {table.name} SET price = 1.5, name = 'moved' WHERE id % 10 = 0")
    watched.execute(f"DELETE FROM {table.name} WHERE id % 10 = 1")
    watched.execute(f"INSERT INTO {table.name} SELECT n, 'new' FROM generate_series(5001, 5050) n")
    watched.execute(f"UPDATE {table.name} SET id = id + 10000 WHERE id BETWEEN 100 AND 110")
    assert is_same(replicas, watched, table)


def test_a_value_that_the_log_leaves_out_comes_from_the_base_under_the_key_it_had_there(replicas, watched):
    table = watched.create("id int PRIMARY KEY, small int, large text, other text")
    watched.execute(f"ALTER TABLE {table.name} ALTER large SET STORAGE EXTERNAL")
    watched.execute(f"INSERT INTO {table.name} SELECT n, n, repeat('é' || n, 2000), NULL FROM generate_series(1, 20) n")
    replicas.load(table)
    watched.execute(f"UPDATE {table.name} SET small = -1 WHERE id = 3")
    watched.execute(f"UPDATE {table.name} SET id = 100, small = -2 WHERE id = 4")
    watched.execute(f"UPDATE {table.name} SET id = 101 WHERE id = 100")
    watched.execute(f"INSERT INTO {table.name} VALUES (4, 0, 'short', 'x')")
    watched.execute(f"UPDATE {table.name} SET large = 'now short' WHERE id = 5")
    watched.execute(f"UPDATE {table.name} SET small = -3 WHERE id = 5")
    assert is_same(replicas, watched, table)
    watched.execute(f"UPDATE {table.name} SET small = small + 1, other = 'again'")
    assert is_same(replicas, watched, table)


def test_a_table_without_a_key_is_a_multiset(replicas, watched):
    table = watched.create("a int, b text, f float8")
    watched.execute(
        f"INSERT INTO {table.name} SELECT n % 4, NULLIF('b' || n % 3, 'b1'), CASE n % 2 WHEN 0 THEN '-0'::float8 "
        "ELSE 0 END FROM generate_series(1, 240) n"
    )
    replicas.load(table)
    one = f"(SELECT min(ctid) FROM {table.name} WHERE a = 2 AND b IS NULL)"
    watched.execute(f"DELETE FROM {table.name} WHERE ctid = {one}")
    watched.execute(f"UPDATE {table.name} SET a = 3 WHERE ctid = {one}")
    assert is_same(replicas, watched, table)
    watched.execute(f"DELETE FROM {table.name} WHERE a = 1")
    watched.execute(f"INSERT INTO {table.name} VALUES (1, 'b0', 'NaN'), (1, 'b0', 'NaN'), (7, NULL, NULL)")
    watched.execute(f"DELETE FROM {table.name} WHERE a = 7")
    assert is_same(replicas, watched, table)


@pytest.mark.parametrize("columns", ["id int PRIMARY KEY, v text", "id int, v text"], ids=["keyed", "keyless"])
def test_truncate_counts_in_its_place_among_the_changes_of_its_transaction(replicas, watched, columns):
    table = watched.create(columns)
    watched.execute(f"INSERT INTO {table.name} SELECT n, 'v' FROM generate_series(1, 300) n")
    replicas.load(table)
    with watched.connection.transaction():
        watched.execute(f"UPDATE {table.name} SET v = 'before' WHERE id < 5")
        watched.execute(f"TRUNCATE {table.name}")
        watched.execute(f"INSERT INTO {table.name} VALUES (1, 'after'), (2, 'after')")
        watched.execute(f"UPDATE {table.name} SET v = 'later' WHERE id = 2")
    assert is_same(replicas, watched, table)
    changes = replicas.tables.changes(table.oid)
    assert (changes.emptied, sorted(changes.rows)) == (True, [((b"1", b"after"), 1), ((b"2", b"later"), 1)])
    replicas.tables.clear_changes()
    watched.execute(f"DELETE FROM {table.name} WHERE id = 1")
    assert is_same(replicas, watched, table)
    assert not replicas.tables.changes(table.oid).emptied


def test_a_small_table_is_held_in_memory_until_it_grows(spark, watched, tmp_path, make_replicas):
    replicas = make_replicas(limits=ReplicaLimits(in_memory_rows=50, overlay_rows=50, checkpoint_rows=10_000))
    keyed, keyless = watched.create("id int PRIMARY KEY, v text"), watched.create("id int, v text")
    for table in (keyed, keyless):
        watched.execute(f"INSERT INTO {table.name} SELECT n, 'v' FROM generate_series(1, 20) n")
    replicas.load(keyed, keyless)
    for turn in range(3):
        for table in (keyed, keyless):
            watched.execute(
                f"INSERT INTO {table.name} SELECT n, 'w' FROM generate_series(%s::int, %s) n",
                100 + turn * 100,
                199 + turn * 100,
            )
            watched.execute(f"DELETE FROM {table.name} WHERE id %% 7 = %s", turn)
            watched.execute(f"UPDATE {table.name} SET v = v || 'x' WHERE id %% 5 = %s", turn)
            assert is_same(replicas, watched, table)
        replicas.rest()
        assert is_same(replicas, watched, keyed) and is_same(replicas, watched, keyless)
    assert replicas.compacted() > 0


def test_a_transaction_that_is_too_large_to_keep_has_its_table_loaded_again(watched, make_replicas):
    replicas = make_replicas(most_bytes=100_000)
    large, small = watched.create("id int PRIMARY KEY, v text"), watched.create("id int PRIMARY KEY, v text")
    for table in (large, small):
        watched.execute(f"INSERT INTO {table.name} SELECT n, 'v' FROM generate_series(1, 50) n")
    replicas.load(large, small)
    with watched.connection.transaction():
        watched.execute(f"UPDATE {small.name} SET v = 'w' WHERE id = 1")
        watched.execute(f"TRUNCATE {large.name}")
        watched.execute(f"INSERT INTO {large.name} SELECT n, 'w' FROM generate_series(1, 2000) n")
    replicas.reach(watched.barrier())
    assert not replicas.tables.is_ready(large.oid) and replicas.tables.is_ready(small.oid)
    watched.execute(f"UPDATE {large.name} SET v = 'x' WHERE id = 2")
    replicas.load(large)
    assert is_same(replicas, watched, large) and is_same(replicas, watched, small)
    reloaded = [event["table"] for event in replicas.events if event["event"] == "table_reloaded"]
    assert reloaded == [large.name]


def test_one_login_s_locked_tables_leave_a_thread_to_the_others(watched, make_replicas):
    """A load waits two seconds for a lock, and all the others behind it."""
    replicas = make_replicas(limits=ReplicaLimits())
    hostile = [watched.create("id int PRIMARY KEY") for _ in range(6)]
    own = watched.create("id int PRIMARY KEY")
    with watched.connect() as locking, locking.transaction():
        for table in hostile:
            locking.execute(f"LOCK TABLE {table.name} IN ACCESS EXCLUSIVE MODE")
        for table in hostile:
            replicas.tables.want(table, login="hostile")
        replicas.tables.want(own, login="neighbour")
        replicas.until(lambda: replicas.tables.is_ready(own.oid), within_s=3.5)
    replicas.load(*hostile)


def test_a_table_that_is_too_large_is_left_to_postgres(watched, make_replicas):
    table = watched.create("id int PRIMARY KEY, t text")
    watched.execute(f"INSERT INTO {table.name} SELECT n, repeat('x', 1000) FROM generate_series(1, 2000) n")
    replicas = make_replicas(limits=ReplicaLimits(largest_table_mb=1))
    replicas.tables.want(table)
    replicas.until(lambda: replicas.has_left([table]))
    assert replicas.settled[-1].outcome == "unfit"
    assert replicas.settled[-1].reason == f"table {table.name} takes 2 MB, at most 1 are copied"
