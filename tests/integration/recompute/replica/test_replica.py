"""A table in Spark is the table in PostgreSQL, at every commit."""


def test_a_table_is_copied_in_parts_and_kept_up(replicas, watched):
    table = watched.create("id int PRIMARY KEY, name text, price numeric(10,2), at timestamptz, tags text[]")
    watched.execute(
        f"INSERT INTO {table.name} SELECT n, CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN '' WHEN 2 THEN E'a\"b\\n,\\\\' "
        "ELSE 'n' || n END, n / 7.0, CASE WHEN n % 11 = 0 THEN 'infinity' ELSE '2024-02-29 12:00'::timestamptz "
        "+ n * interval '1 hour' END, ARRAY['x', NULL, n::text] FROM generate_series(1, 5000) n"
    )
    replicas.load(table)
    assert replicas.rows(table) == watched.rows(table)
    watched.execute(f"UPDATE {table.name} SET price = 1.5, name = 'moved' WHERE id % 10 = 0")
    watched.execute(f"DELETE FROM {table.name} WHERE id % 10 = 1")
    watched.execute(f"INSERT INTO {table.name} SELECT n, 'new' FROM generate_series(5001, 5050) n")
    watched.execute(f"UPDATE {table.name} SET id = id + 10000 WHERE id BETWEEN 100 AND 110")
    replicas.reach(watched.barrier())
    assert replicas.rows(table) == watched.rows(table)
