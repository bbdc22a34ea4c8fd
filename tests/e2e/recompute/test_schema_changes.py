"""Tables, columns, views and partitions change under live queries (decisions 14 and 15)."""

import pytest

MISSING_TABLE, MISSING_COLUMN = "42P01", "42703"


@pytest.fixture
def table(connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, a int, b text)")
    connection.execute(f"INSERT INTO {own} SELECT n, n * 10, 'b' || n FROM generate_series(1, 10) n")
    return own


def failed(road, follower, *sqlstates):
    road.until(lambda: follower.error is not None, f"the error of {follower.query.sql}")
    assert follower.error.sqlstate in sqlstates, follower.error


@pytest.mark.parametrize("shape", ["SELECT id FROM {}", "SELECT count(*) FROM {}", "SELECT json_agg(a)::text FROM {}"])
def test_a_dropped_table_invalidates_its_queries_in_words(road, connection, table, shape):
    connection.execute(f"CREATE TABLE {table}_other (id int PRIMARY KEY)")
    follower = road.good(shape.format(table))
    bystander = road.good(f"SELECT id FROM {table}_other")
    connection.execute(f"DROP TABLE {table}")
    failed(road, follower, MISSING_TABLE)
    assert follower.error.message == f"Subscription invalidated: table '{table}' was dropped"
    connection.execute(f"INSERT INTO {table}_other VALUES (1)")
    road.holds(bystander)
    assert [seen.kind for seen in bystander.seen[1:] if seen.kind != "PROGRESS"] == ["NET"]


def test_a_dropped_column_ends_those_that_use_it_and_no_others(road, connection, table):
    users = [
        road.good(f"SELECT id, a FROM {table}"),
        road.good(f"SELECT id FROM {table} WHERE a > 20"),
        road.good(f"SELECT sum(a) FROM {table}"),
    ]
    others = [road.good(f"SELECT id, b FROM {table}"), road.good(f"SELECT count(*) FROM {table}")]
    star = road.good(f"SELECT * FROM {table}")
    connection.execute(f"ALTER TABLE {table} DROP COLUMN a")
    for follower in users:
        failed(road, follower, MISSING_COLUMN)
        assert follower.error.message.startswith("Subscription invalidated: ")
    connection.execute(f"INSERT INTO {table} VALUES (11, 'b11')")
    road.holds(*others, star)
    assert star.columns == ("id", "b")
    assert all(seen.kind != "FULL" for one in others for seen in one.seen[1:]), "their columns did not change"


def test_an_added_column_shows_where_all_columns_were_asked_for(road, connection, table):
    star = road.good(f"SELECT * FROM {table}")
    ordered = road.good(f"SELECT t.* FROM {table} t ORDER BY id LIMIT 3")
    named = road.good(f"SELECT id, a FROM {table}")
    connection.execute(f"ALTER TABLE {table} ADD COLUMN c int DEFAULT 7")
    road.holds(star, ordered, named)
    assert star.columns == ("id", "a", "b", "c")
    assert (star.seen[-1].kind, star.seen[-1].reason) == ("FULL", "SCHEMA_CHANGED") or any(
        (seen.kind, seen.reason) == ("FULL", "SCHEMA_CHANGED") for seen in star.seen
    )
    connection.execute(f"UPDATE {table} SET c = 8 WHERE id = 1")
    connection.execute(f"UPDATE {table} SET a = 8 WHERE id = 2")
    road.holds(star, ordered, named)
    assert all(seen.kind in ("NET", "PROGRESS") for seen in named.seen[1:])


def test_names_that_are_changed_are_dropped_and_added(road, connection, table):
    by_column = road.good(f"SELECT id, a FROM {table}")
    by_table = road.good(f"SELECT id FROM {table}")
    connection.execute(f"ALTER TABLE {table} RENAME COLUMN a TO renamed")
    failed(road, by_column, MISSING_COLUMN)
    connection.execute(f"ALTER TABLE {table} RENAME TO {table}_renamed")
    failed(road, by_table, MISSING_TABLE)
    # Another table takes the name: the query means that one now.
    connection.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, a text)")
    connection.execute(f"INSERT INTO {table} VALUES (5000000000, 'new')")
    for follower in (by_column, by_table):
        road.until(lambda one=follower: one.error is None, f"{follower.query.sql} on the new table")
    road.holds(by_column, by_table)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER COLUMN a TYPE bigint",
        "ALTER COLUMN a TYPE text USING 'n' || a",
        "ALTER COLUMN a TYPE numeric(10, 2) USING a / 4.0",
        "ALTER COLUMN b TYPE varchar(2) USING left(b, 2)",
    ],
)
def test_a_type_that_is_changed_is_taken_anew(road, connection, table, change):
    followers = [
        road.good(f"SELECT * FROM {table}"),
        road.good(f"SELECT id, a, b FROM {table} WHERE id > 3"),
        road.good(f"SELECT max(a), min(b), count(*) FROM {table}"),
        road.good(f"SELECT a.id, b.a FROM {table} a LEFT JOIN {table} b ON a.a = b.a AND b.id < 5"),
    ]
    connection.execute(f"ALTER TABLE {table} {change}")
    road.holds(*followers)
    connection.execute(f"UPDATE {table} SET a = a WHERE id = 2; DELETE FROM {table} WHERE id = 1")
    connection.execute(f"INSERT INTO {table} (id) VALUES (77)")
    road.holds(*followers)


def test_truncate_empties_and_what_comes_after_it_stays(road, connection, table):
    followers = [
        road.good(f"SELECT id, b FROM {table}"),
        road.good(f"SELECT count(*) FROM {table}"),
        road.good(f"SELECT json_agg(id)::text FROM {table}"),
    ]
    connection.execute(f"TRUNCATE {table}")
    road.holds(*followers)
    with connection.transaction():
        connection.execute(f"INSERT INTO {table} VALUES (1, 1, 'before')")
        connection.execute(f"TRUNCATE {table}")
        connection.execute(f"INSERT INTO {table} VALUES (2, 2, 'after')")
    road.holds(*followers)
    assert not any((b"1", b"before") in seen.rows for seen in followers[0].seen)
    connection.execute(f"BEGIN; TRUNCATE {table}; ROLLBACK")
    road.holds(*followers)


def test_rows_and_shape_that_change_in_one_transaction_are_one_state(road, connection, table):
    follower = road.good(f"SELECT * FROM {table} WHERE id < 4")
    with connection.transaction():
        connection.execute(f"UPDATE {table} SET b = 'first' WHERE id = 1")
        connection.execute(f"ALTER TABLE {table} ADD COLUMN d text DEFAULT 'd'")
        connection.execute(f"UPDATE {table} SET d = 'second' WHERE id = 1")
    road.holds(follower)
    torn = [seen for seen in follower.seen for row in seen.rows if b"first" in row and b"second" not in row]
    assert torn == []


def test_ddl_on_other_tables_publishes_nothing(road, connection, table):
    follower = road.good(f"SELECT id, a FROM {table} WHERE a > 0")
    connection.execute(f"CREATE TABLE {table}_elsewhere (id int)")
    connection.execute(f"CREATE INDEX ON {table} (a)")
    connection.execute(f"COMMENT ON TABLE {table} IS 'noted'")
    connection.execute(f"ALTER TABLE {table}_elsewhere ADD COLUMN x int")
    connection.execute(f"DROP TABLE {table}_elsewhere")
    connection.execute(f"UPDATE {table} SET a = 5 WHERE id = 1")
    road.holds(follower)
    assert {seen.kind for seen in follower.seen[1:]} <= {"NET", "PROGRESS"}


def test_a_view_that_is_replaced_means_its_new_body(road, connection, table):
    connection.execute(f"CREATE VIEW {table}_view AS SELECT id, a FROM {table} WHERE a < 50")
    connection.execute(f"CREATE VIEW {table}_outer AS SELECT id FROM {table}_view")
    followers = [
        road.good(f"SELECT * FROM {table}_view"),
        road.good(f"SELECT count(*) FROM {table}_outer"),
        road.good(f"SELECT v.id, t.b FROM {table}_view v JOIN {table} t USING (id)"),
    ]
    connection.execute(f"CREATE OR REPLACE VIEW {table}_view AS SELECT id, a FROM {table} WHERE a >= 50")
    road.holds(*followers)
    connection.execute(f"UPDATE {table} SET a = a + 15")
    road.holds(*followers)
    connection.execute(f"CREATE OR REPLACE VIEW {table}_view AS SELECT id, a, b FROM {table} WHERE a >= 70")
    road.holds(*followers)
    assert followers[0].columns == ("id", "a", "b")
    connection.execute(f"DROP VIEW {table}_view CASCADE")
    for follower in followers:
        failed(road, follower, MISSING_TABLE)


def test_partitions_come_and_go(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int, day date, v int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)")
    for month in (1, 2):
        connection.execute(
            f"CREATE TABLE {own}_{month} PARTITION OF {own} "
            f"FOR VALUES FROM ('2026-0{month}-01') TO ('2026-0{month + 1}-01')"
        )
    connection.execute(f"INSERT INTO {own} SELECT n, '2026-01-15'::date + n, n FROM generate_series(1, 30) n")
    followers = [
        road.good(f"SELECT id, day FROM {own} WHERE v > 10"),
        road.good(f"SELECT count(*), sum(v) FROM {own}"),
        road.good(f"SELECT id FROM ONLY {own}_2"),
    ]
    connection.execute(f"CREATE TABLE {own}_3 (id int NOT NULL, day date NOT NULL, v int, PRIMARY KEY (id, day))")
    connection.execute(f"INSERT INTO {own}_3 VALUES (100, '2026-03-01', 100)")
    connection.execute(f"ALTER TABLE {own} ATTACH PARTITION {own}_3 FOR VALUES FROM ('2026-03-01') TO ('2026-04-01')")
    road.holds(*followers)
    connection.execute(f"UPDATE {own} SET v = v + 1, day = '2026-03-02' WHERE id = 12")  # moves to another partition
    connection.execute(f"INSERT INTO {own} VALUES (101, '2026-03-09', 11)")
    road.holds(*followers)
    connection.execute(f"ALTER TABLE {own} DETACH PARTITION {own}_1")
    road.holds(*followers)
    connection.execute(f"INSERT INTO {own}_1 VALUES (102, '2026-01-01', 999)")
    connection.execute(f"DROP TABLE {own}_3")
    road.holds(*followers)
    assert all(seen.kind != "ERROR" for one in followers for seen in one.seen)


def test_ddl_that_could_not_be_described_puts_every_table_in_doubt(road, connection, table):
    """The trigger swallows its errors and leaves a mark that names nothing; rewritten rows are not in the log."""
    followers = [road.good(f"SELECT id, a FROM {table}"), road.good(f"SELECT sum(a) FROM {table}")]
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute(f"ALTER TABLE {table} ALTER COLUMN a TYPE int USING a + 1")
        connection.execute("SELECT _tidewire.mark_blank('ALTER TABLE')")
    road.holds(*followers)
