"""Queries that read the clock: on change, on a timer, and always for the moment that the delta names."""

from collections import Counter

# Microseconds since 1970 as a moment; exact, where to_timestamp(double) is not.
MOMENT = "('epoch'::timestamptz + {} * interval '1 microsecond')"


def at_moment(connection, sql, moment_us):
    """PostgreSQL's answer with the moment in the place of now()."""
    rows = connection.execute(sql.replace("now()", MOMENT.format(moment_us))).fetchall()
    return Counter(tuple(None if value is None else str(value).encode() for value in row) for row in rows)


def test_a_row_leaves_by_the_timer_alone_and_each_state_is_that_of_its_moment(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, at timestamptz NOT NULL)")
    connection.execute(f"INSERT INTO {own} SELECT n, now() + n * interval '2 s' FROM generate_series(1, 5) n")
    sql = f"SELECT id FROM {own} WHERE at > now()"
    coming = road.subscribe(sql)
    passed = road.subscribe(f"SELECT count(*) FROM {own} WHERE at <= now()")
    assert coming.error is None and passed.error is None
    road.until(lambda: not coming.rows and passed.rows == Counter([(b"5",)]), "all moments to pass")
    assert len([seen for seen in coming.seen if seen.kind == "NET"]) >= 1
    for follower in (coming, passed):
        moments = [seen.standing.moment_us for seen in follower.seen]
        assert moments == sorted(moments) and len(set(moments)) == len(moments)
        for seen in follower.seen:
            assert seen.rows == at_moment(connection, follower.query.sql, seen.standing.moment_us), seen
    # A change is told at once, not only by the timer, for a moment of its own.
    connection.execute(f"INSERT INTO {own} VALUES (9, now() + interval '1 hour')")
    road.catch_up(coming, passed)
    assert coming.rows == Counter([(b"9",)])


def test_the_moment_itself_is_what_is_printed(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY)")
    connection.execute(f"INSERT INTO {own} VALUES (1)")
    follower = road.subscribe(f"SELECT id, now() FROM {own}")
    road.until(lambda: len(follower.seen) >= 3, "three moments")
    for seen in follower.seen:
        ((_, printed),) = seen.rows
        (moment,) = connection.execute(f"SELECT {MOMENT.format(seen.standing.moment_us)}::text").fetchone()
        assert printed.decode() == moment, seen


def test_today_is_today_in_the_subscriber_s_zone(road, connection, own):
    connection.execute(f"CREATE TABLE {own} (id int PRIMARY KEY, day date NOT NULL)")
    connection.execute(f"INSERT INTO {own} SELECT n, current_date + n - 3 FROM generate_series(1, 5) n")
    followers = []
    for zone in ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"):
        query = road.query(f"SELECT id, day FROM {own} WHERE day = current_date")
        query = road.query(query.sql, settings=with_zone(query.text_settings, zone))
        followers.append(road.ask(query))
    road.until(lambda: all(one.has_begun for one in followers), "first results")
    for follower in followers:
        # At midnight the answer changes between the two looks; then the timer brings it.
        road.until(lambda one=follower: one.rows == Counter(road.answer(one.query)), f"today of {follower.query.sql}")


def with_zone(settings, zone):
    made = type(settings)()
    made.CopyFrom(settings)
    made.time_zone = zone
    return made
