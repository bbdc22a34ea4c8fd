"""Relations of every kind: kept exactly, run by PostgreSQL on a timer as well, or refused in words."""

from collections import Counter

import pytest


def test_nested_views_quoted_names_and_schemas(road, connection, own):
    connection.execute(f'CREATE SCHEMA "{own} Sales"')
    connection.execute(f'CREATE TABLE "{own} Sales"."Order" ("Id" int PRIMARY KEY, "order by" text, "Größe" int)')
    connection.execute(
        f'CREATE VIEW "{own} Sales".big AS SELECT "Id", "Größe" g FROM "{own} Sales"."Order" WHERE "Größe" > 5'
    )
    connection.execute(f'CREATE VIEW {own}_sum AS SELECT sum(g) AS "Sum", count(*) n FROM "{own} Sales".big')
    connection.execute(f'CREATE VIEW {own}_top AS SELECT "Sum" * 2 AS twice, n FROM {own}_sum')
    connection.execute(f"""INSERT INTO "{own} Sales"."Order" SELECT n, 'x"' || n, n FROM generate_series(1, 12) n""")
    path = (f"{own} Sales", "public")
    followers = [
        road.good(f"SELECT * FROM {own}_top"),
        road.good(f'SELECT "Id" AS "a b", "order by" FROM "{own} Sales"."Order" AS "T" WHERE "T"."Größe" < 4'),
        road.good('SELECT "Id" FROM "Order" WHERE "Größe" = 3', search_path=path),
        road.good("SELECT b.* FROM big b", search_path=path),
        road.good(f'SELECT o."Id", t.n FROM "Order" o CROSS JOIN {own}_sum t', search_path=path),
    ]
    assert followers[1].columns == ("a b", "order by")
    connection.execute(f'UPDATE "{own} Sales"."Order" SET "Größe" = "Größe" + 3')
    connection.execute(f'DELETE FROM "{own} Sales"."Order" WHERE "Id" = 1')
    road.holds(*followers)
    # The same words with another path mean another table.
    connection.execute('CREATE TABLE IF NOT EXISTS "Order" ("Id" int PRIMARY KEY, "Größe" int)')
    connection.execute('INSERT INTO "Order" VALUES (77, 3)')
    there = road.good('SELECT "Id" FROM "Order" WHERE "Größe" = 3', search_path=("public",))
    assert there.rows == Counter([(b"77",)])
    road.holds(*followers)
    connection.execute('DROP TABLE "Order"')


def test_partitioned_and_inherited_tables(road, connection, own):
    connection.execute(f"CREATE TABLE {own}_p (id int, k int, v text, PRIMARY KEY (k, id)) PARTITION BY LIST (k)")
    connection.execute(f"CREATE TABLE {own}_p1 PARTITION OF {own}_p FOR VALUES IN (1) ")
    connection.execute(f"CREATE TABLE {own}_p2 (v text, id int NOT NULL, extra int, k int NOT NULL)")  # another order
    connection.execute(f"ALTER TABLE {own}_p2 DROP COLUMN extra")
    connection.execute(f"ALTER TABLE {own}_p ATTACH PARTITION {own}_p2 FOR VALUES IN (2)")
    connection.execute(f"CREATE TABLE {own}_pd PARTITION OF {own}_p DEFAULT PARTITION BY HASH (id)")
    for remainder in range(2):
        connection.execute(
            f"CREATE TABLE {own}_pd{remainder} PARTITION OF {own}_pd FOR VALUES WITH (MODULUS 2, REMAINDER {remainder})"
        )
    connection.execute(f"INSERT INTO {own}_p SELECT n, n % 4, 'v' || n FROM generate_series(1, 20) n")
    connection.execute(f"CREATE TABLE {own}_base (id int PRIMARY KEY, v int)")
    connection.execute(f"CREATE TABLE {own}_child (w int, PRIMARY KEY (id)) INHERITS ({own}_base)")
    connection.execute(f"INSERT INTO {own}_base VALUES (1, 1), (2, 2)")
    connection.execute(f"INSERT INTO {own}_child VALUES (1, 10, 5), (3, 30, 5)")  # id 1 stands in both
    followers = [
        road.good(f"SELECT id, k, v FROM {own}_p"),
        road.good(f"SELECT k, count(*) FROM {own}_p GROUP BY k"),
        road.good(f"SELECT * FROM {own}_base"),
        road.good(f"SELECT * FROM ONLY {own}_base"),
        road.good(f"SELECT b.id, c.w FROM {own}_base b JOIN {own}_child c ON c.id = b.id"),
    ]
    connection.execute(f"UPDATE {own}_p SET k = k + 1 WHERE id < 9")
    connection.execute(f"UPDATE {own}_base SET v = v + 100 WHERE id = 1")
    road.holds(*followers)
    connection.execute(f"DELETE FROM {own}_child WHERE id = 1")
    connection.execute(f"DELETE FROM {own}_p WHERE k = 2")
    connection.execute(f"TRUNCATE {own}_p2")
    road.holds(*followers)
    connection.execute(f"TRUNCATE ONLY {own}_base")
    road.holds(*followers)


def test_tables_without_a_key_are_multisets(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (a int, b text)")
    connection.execute(f"INSERT INTO {own} SELECT n % 3, NULLIF(n % 2, 0)::text FROM generate_series(1, 12) n")
    followers = [
        road.good(f"SELECT a, b FROM {own}"),
        road.good(f"SELECT b FROM {own} WHERE a > 0"),
        road.good(f"SELECT a, count(*) FROM {own} GROUP BY a"),
    ]
    connection.execute(f"INSERT INTO {own} VALUES (1, '1'), (1, '1'), (NULL, NULL)")
    road.holds(*followers)
    connection.execute(f"DELETE FROM {own} WHERE ctid IN (SELECT ctid FROM {own} WHERE a = 1 AND b = '1' LIMIT 1)")
    connection.execute(f"UPDATE {own} SET a = a + 1 WHERE ctid IN (SELECT ctid FROM {own} WHERE b IS NULL LIMIT 2)")
    road.holds(*followers)
    assert followers[0].key_positions == ()


def test_generated_columns(road, connection, own):
    virtual = ", d int GENERATED ALWAYS AS (a - b) VIRTUAL" if connection.info.server_version >= 180000 else ""
    connection.execute(
        f"CREATE TABLE {own} (id int PRIMARY KEY, a int, b int, s int GENERATED ALWAYS AS (a + b) STORED{virtual})"
    )
    connection.execute(f"INSERT INTO {own} SELECT n, n, n * 2 FROM generate_series(1, 5) n")
    followers = [road.good(f"SELECT * FROM {own}"), road.good(f"SELECT id, s FROM {own} WHERE s > 6")]
    if virtual:
        followers.append(road.good(f"SELECT sum(d) FROM {own}"))
    connection.execute(f"UPDATE {own} SET a = a * 10 WHERE id < 4")
    connection.execute(f"DELETE FROM {own} WHERE id = 5")
    road.holds(*followers)


def test_a_materialized_view_is_looked_at_on_a_timer(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY)")
    connection.execute(f"CREATE MATERIALIZED VIEW {own}_mat AS SELECT count(*) AS n FROM {own}")
    follower = road.good(f"SELECT n FROM {own}_mat")
    assert road.strategy(follower) == "source"
    connection.execute(f"INSERT INTO {own} VALUES (1), (2)")
    connection.execute(f"REFRESH MATERIALIZED VIEW {own}_mat")
    road.until(lambda: follower.rows == Counter([(b"2",)]), "the refreshed view")


def test_set_returning_functions_and_catalogs_are_run_by_postgres(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, tags text[])")
    connection.execute(f"INSERT INTO {own} VALUES (1, '{{a,b}}'), (2, '{{b}}')")
    series = road.good("SELECT n, n * n FROM generate_series(1, 4) n")
    tags = road.good(f"SELECT t.id, tag FROM {own} t, unnest(t.tags) tag")
    catalog = road.good(f"SELECT relname FROM pg_class WHERE relname LIKE '{own}%' AND relkind = 'r'")
    schema = road.good(f"SELECT count(*) FROM information_schema.columns WHERE table_name = '{own}_later'")
    for follower in (series, tags, catalog, schema):
        assert road.strategy(follower) == "source"
    connection.execute(f"UPDATE {own} SET tags = tags || '{{c}}'")
    connection.execute(f"CREATE TABLE {own}_later (id int, v int)")
    road.until(lambda: catalog.rows.total() == 2 and schema.rows == Counter([(b"2",)]), "the catalog on the timer")
    road.holds(series, tags, catalog, schema)


def test_temporary_and_unlogged_tables(road, connection, own):
    connection.execute(f"CREATE UNLOGGED TABLE {own} (id int PRIMARY KEY)")
    connection.execute(f"INSERT INTO {own} VALUES (1)")
    follower = road.good(f"SELECT id FROM {own}")
    connection.execute(f"INSERT INTO {own} VALUES (2)")
    road.until(lambda: follower.rows.total() == 2, "the unlogged table on the timer")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT nextval('{own}_seq')",
        "SELECT id, pg_sleep(1) FROM {own}",
        "SELECT setval('{own}_seq', 5)",
        "SELECT set_config('work_mem', '1MB', false)",
        "SELECT pg_notify('a', 'b')",
        "SELECT pg_advisory_lock(1)",
        "SELECT lo_create(0)",
        "SELECT id FROM {own} FOR UPDATE",
        "WITH gone AS (DELETE FROM {own} RETURNING id) SELECT * FROM gone",
        "SELECT {own}_effect()",
        "SELECT * FROM {own}_sneaky",
        "SELECT pg_terminate_backend(0)",
        "SELECT pg_read_file('PG_VERSION')",
    ],
)
def test_what_has_effects_is_refused_in_words_and_not_run(road, connection, own, sql):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY)")
    connection.execute(f"INSERT INTO {own} VALUES (1)")
    connection.execute(f"CREATE SEQUENCE {own}_seq")
    connection.execute(
        f"CREATE FUNCTION {own}_effect() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT nextval('{own}_seq') $$"
    )
    connection.execute(f"CREATE VIEW {own}_sneaky AS SELECT id, {own}_effect() FROM {own}")
    follower = road.subscribe(sql.format(own=own))
    assert follower.error is not None, "it was not refused"
    assert len(follower.error.message) > 10 and follower.error.sqlstate
    assert connection.execute(f"SELECT is_called FROM {own}_seq").fetchone() == (False,), "it was run"
    assert connection.execute(f"SELECT count(*) FROM {own}").fetchone() == (1,)


def test_a_function_of_a_stranger_is_never_run(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY)")
    connection.execute(f"INSERT INTO {own} VALUES (1)")
    connection.execute(f"CREATE TABLE {own}_caught (who text)")
    connection.execute(f"CREATE ROLE {own}_mallory")
    connection.execute(f"GRANT USAGE, CREATE ON SCHEMA public TO {own}_mallory")
    connection.execute(f"GRANT SELECT ON {own} TO {own}_mallory")
    try:
        connection.execute(f"SET ROLE {own}_mallory")
        connection.execute(
            f"CREATE FUNCTION {own}_trap(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS "
            f"$$ BEGIN RESET ROLE; INSERT INTO {own}_caught VALUES (current_user); RETURN true; END $$"
        )
        connection.execute(f"CREATE VIEW {own}_bait AS SELECT id FROM {own} WHERE {own}_trap(1)")
        connection.execute("RESET ROLE")
        for sql in (f"SELECT id FROM {own} WHERE {own}_trap(id)", f"SELECT * FROM {own}_bait"):
            follower = road.subscribe(sql, role=f"{own}_mallory")
            assert follower.error is not None, sql
        assert connection.execute(f"SELECT count(*) FROM {own}_caught").fetchone() == (0,)
    finally:
        connection.execute("RESET ROLE")
        road.stop_all()
        connection.execute(f"DROP OWNED BY {own}_mallory CASCADE")
        connection.execute(f"DROP ROLE {own}_mallory")


def test_filters_narrow_a_result_as_a_wrapped_query(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, name text, price numeric(8, 2))")
    connection.execute(
        f"INSERT INTO {own} SELECT n, CASE WHEN n % 3 > 0 THEN 'Name' || n END, n FROM generate_series(1, 12) n"
    )
    followers = [
        road.good(f"SELECT id, name FROM {own}", filter="name LIKE 'Name1%'"),
        road.good(f"SELECT id, price * 2 AS twice FROM {own}", filter="twice > 10 AND id <> 7"),
        road.good(f"SELECT name, count(*) AS n FROM {own} GROUP BY name", filter="name IS NOT DISTINCT FROM NULL"),
        road.good(f"SELECT id FROM {own} WHERE price > $1", b"5.5", filter="id BETWEEN 1 AND 8"),
        road.good(f"SELECT id, name FROM {own}", filter="NOT (name = 'Name1')"),
    ]
    connection.execute(f"UPDATE {own} SET name = NULL, price = price + 3 WHERE id IN (1, 4, 10)")
    connection.execute(f"DELETE FROM {own} WHERE id = 5")
    road.holds(*followers)
