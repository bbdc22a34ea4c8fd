"""A query runs with the rows and columns that its role may see, deletes included, and rights are looked at again."""

import pytest

DENIED = "42501"


@pytest.fixture
def roles(connection, own):
    """Two roles that may see a table of notes, each only its own rows."""
    names = (f"{own}_alice", f"{own}_bob")
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, owner name NOT NULL, body text, secret text)")
    connection.execute(f"ALTER TABLE {own} ENABLE ROW LEVEL SECURITY")
    connection.execute(f"CREATE POLICY own_rows ON {own} USING (owner = current_user)")
    for name in names:
        connection.execute(f"CREATE ROLE {name}")
        connection.execute(f"GRANT SELECT ON {own} TO {name}")
    connection.execute(
        f"INSERT INTO {own} SELECT n, (%s::text[])[1 + n %% 2], 'body ' || n, 'x' FROM generate_series(1, 20) n",
        [list(names)],
    )
    yield names
    for name in names:
        connection.execute(f"DROP OWNED BY {name} CASCADE")
        connection.execute(f"DROP ROLE {name}")


def ids_ever_told(follower):
    return {int(row[0]) for seen in follower.seen for row in seen.rows}


def test_each_role_sees_its_own_rows_and_never_learns_of_others_not_even_by_deletes(road, connection, own, roles):
    alice, bob = roles
    shapes = (f"SELECT id, body FROM {own}", f"SELECT count(*), min(body) FROM {own}")
    of_alice = [road.good(sql, role=alice) for sql in shapes]
    of_bob = [road.good(sql, role=bob) for sql in shapes]
    of_all = road.good(shapes[0])
    connection.execute(f"INSERT INTO {own} VALUES (100, '{bob}', 'for bob'), (101, '{alice}', 'for alice')")
    connection.execute(f"UPDATE {own} SET body = upper(body) WHERE id IN (1, 2)")
    connection.execute(f"DELETE FROM {own} WHERE id IN (3, 4)")
    road.holds(*of_alice, *of_bob, of_all)
    # A row changes hands: it leaves the one and comes to the other.
    connection.execute(f"UPDATE {own} SET owner = '{bob}' WHERE id = 101")
    road.holds(*of_alice, *of_bob, of_all)
    connection.execute(f"DELETE FROM {own} WHERE id IN (100, 101)")
    road.holds(*of_alice, *of_bob, of_all)
    mine = {id for (id,) in connection.execute(f"SELECT id FROM {own} WHERE owner = '{alice}'")}
    others = {id for (id,) in connection.execute(f"SELECT id FROM {own} WHERE owner = '{bob}'")} | {100}
    assert mine <= ids_ever_told(of_alice[0]) and not others & ids_ever_told(of_alice[0])


def test_a_policy_that_changes_while_subscribed_counts_from_then_on(road, connection, own, roles):
    alice, _ = roles
    follower = road.good(f"SELECT id, body FROM {own}", role=alice)
    join = road.good(f"SELECT a.id FROM {own} a JOIN {own} b ON b.id = a.id + 2", role=alice)
    connection.execute(f"ALTER POLICY own_rows ON {own} USING (owner = current_user AND id > 10)")
    connection.execute(f"UPDATE {own} SET body = 'changed' WHERE id < 15")
    road.holds(follower, join)
    assert all(int(row[0]) > 10 for row in follower.rows)
    connection.execute(f"CREATE POLICY more ON {own} AS RESTRICTIVE USING (id < 18)")
    road.holds(follower, join)
    connection.execute(f"CREATE POLICY shared ON {own} FOR SELECT USING (id = 1)")
    road.holds(follower, join)
    connection.execute(f"ALTER TABLE {own} DISABLE ROW LEVEL SECURITY")
    road.holds(follower, join)
    assert follower.rows.total() == 20
    connection.execute(f"ALTER TABLE {own} ENABLE ROW LEVEL SECURITY")
    connection.execute(f"DROP POLICY own_rows ON {own}")
    road.holds(follower, join)
    assert all(seen.kind != "ERROR" for one in (follower, join) for seen in one.seen)


def test_a_policy_over_another_table_and_over_a_setting_is_kept_up_with(road, connection, own, roles):
    alice, bob = roles
    connection.execute(f"CREATE TABLE {own}_shares (note int, reader name, PRIMARY KEY (note, reader))")
    connection.execute(f"GRANT SELECT ON {own}_shares TO {alice}, {bob}")
    connection.execute(
        f"CREATE POLICY shared ON {own} FOR SELECT USING "
        f"(EXISTS (SELECT FROM {own}_shares s WHERE s.note = id AND s.reader = current_user))"
    )
    connection.execute(f"CREATE POLICY tenant ON {own} FOR SELECT USING (body = current_setting('{own}.body', true))")
    follower = road.good(f"SELECT id FROM {own}", role=alice, settings_read={f"{own}.body": "body 3"})
    connection.execute(f"INSERT INTO {own}_shares VALUES (4, '{alice}'), (5, '{bob}'), (6, '{alice}')")
    road.holds(follower)
    connection.execute(f"UPDATE {own} SET body = 'body 3' WHERE id = 8")
    connection.execute(f"DELETE FROM {own}_shares WHERE note = 4")
    road.holds(follower)


def test_the_owner_and_forced_policies(road, connection, own, roles):
    alice, _ = roles
    connection.execute(f"GRANT CREATE ON SCHEMA public TO {alice}")
    connection.execute(f"ALTER TABLE {own} OWNER TO {alice}")
    follower = road.good(f"SELECT id FROM {own}", role=alice)
    assert follower.rows.total() == 20
    connection.execute(f"ALTER TABLE {own} FORCE ROW LEVEL SECURITY")
    road.holds(follower)
    assert follower.rows.total() == 10
    connection.execute(f"ALTER TABLE {own} OWNER TO CURRENT_USER")


def test_views_count_with_their_owner_s_rights_unless_they_say_otherwise(road, connection, own, roles):
    alice, bob = roles
    connection.execute(f"CREATE VIEW {own}_all AS SELECT id, owner FROM {own}")
    connection.execute(f"CREATE VIEW {own}_mine WITH (security_invoker) AS SELECT id, owner FROM {own}")
    connection.execute(f"GRANT SELECT ON {own}_all, {own}_mine TO {alice}")
    everything = road.good(f"SELECT id, owner FROM {own}_all", role=alice)
    mine = road.good(f"SELECT id, owner FROM {own}_mine", role=alice)
    assert (everything.rows.total(), mine.rows.total()) == (20, 10)
    connection.execute(f"INSERT INTO {own} VALUES (200, '{bob}'), (201, '{alice}')")
    connection.execute(f"DELETE FROM {own} WHERE id < 5")
    road.holds(everything, mine)


def test_a_column_that_was_not_granted_is_refused_and_one_that_was_is_not(road, connection, own, roles):
    _, bob = roles
    connection.execute(f"REVOKE SELECT ON {own} FROM {bob}")
    connection.execute(f"GRANT SELECT (id, body, owner) ON {own} TO {bob}")
    road.good(f"SELECT id, body FROM {own}", role=bob)
    for sql in (f"SELECT * FROM {own}", f"SELECT id FROM {own} WHERE secret = 'x'", f"SELECT secret FROM {own}"):
        refused = road.subscribe(sql, role=bob)
        assert refused.error is not None and refused.error.sqlstate == DENIED, (sql, refused.seen)
        assert "permission denied" in refused.error.message


@pytest.mark.parametrize(
    "sql",
    ["SELECT id, body FROM {}", "SELECT count(*) FROM {}", "SELECT json_agg(id)::text FROM {}"],
    ids=["row-local", "full", "source"],
)
def test_a_right_that_is_revoked_while_subscribed_ends_it_with_an_error(road, connection, own, roles, sql):
    alice, bob = roles
    follower = road.good(sql.format(own), role=alice)
    bystander = road.good(sql.format(own), role=bob)
    connection.execute(f"REVOKE SELECT ON {own} FROM {alice}")
    road.until(lambda: follower.error is not None, "the error of a revoked right")
    assert follower.error.sqlstate == DENIED and "permission denied" in follower.error.message
    step = len(follower.seen)
    connection.execute(f"INSERT INTO {own} VALUES (300, '{alice}'), (301, '{bob}')")
    road.holds(bystander)
    assert all(seen.kind == "ERROR" for seen in follower.since(step))
    connection.execute(f"GRANT SELECT ON {own} TO {alice}")
    road.until(lambda: follower.error is None, "the query to come back with its right")
    road.holds(follower)


def test_a_role_that_is_gone_ends_its_queries(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY)")
    connection.execute(f"CREATE ROLE {own}_brief")
    connection.execute(f"GRANT SELECT ON {own} TO {own}_brief")
    follower = road.good(f"SELECT id FROM {own}", role=f"{own}_brief")
    connection.execute(f"DROP OWNED BY {own}_brief")
    connection.execute(f"DROP ROLE {own}_brief")
    road.until(lambda: follower.error is not None, "the error of a role that is gone")
