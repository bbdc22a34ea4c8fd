"""Queries that PostgreSQL runs for us: as their subscriber, under a budget, with the snapshot that they saw."""

import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from proto.tidewire.v1.commands_pb2 import Parameter, TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.chassis.postgres import Postgres
from services.recompute.core.budget import Budget
from services.recompute.outbound.postgres.source import Ran, RanBadly, Source

WITHIN_S = 60.0
OURS = "FROM pg_stat_activity WHERE application_name = 'tidewire recompute' AND datname = current_database()"
QUICK = {"min_interval_s": 0.01, "query_share": 0.9}


@pytest.fixture
def admin(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            """
            DO $$ BEGIN CREATE ROLE reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
            DO $$ BEGIN CREATE ROLE other; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
            CREATE TABLE item (id int PRIMARY KEY, name text, at timestamptz);
            INSERT INTO item VALUES (2, NULL, '2024-07-01 12:00Z'), (1, 'one', NULL);
            GRANT SELECT ON item TO reader, other;
            """
        )
        yield connection


@pytest.fixture
def source(database: str, admin: psycopg.Connection) -> Iterator[Callable[..., Source]]:
    sources: list[Source] = []

    def started(**budget: float) -> Source:
        sources.append(Source(Postgres(dsn=database), Budget(**{**QUICK, **budget})))
        return sources[-1]

    yield started
    for one in sources:
        one.close()


def query_of(sql: str, *values: bytes | None, role: str = "reader", **given: object) -> Query:
    return Query(
        template_sql=sql,
        parameters=[Parameter(value=value) for value in values],
        **{"role": role, "search_path": ["public"], "text_settings": TextSettings(time_zone="UTC"), **given},
    )


def answers(source: Source, count: int = 1) -> list[Ran | RanBadly]:
    found: list[Ran | RanBadly] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} answers"
        found += source.ran()
        time.sleep(0.005)
    return found


def asked(source: Source, query: Query) -> Ran | RanBadly:
    source.ask(b"q", query)
    return answers(source)[0]


def test_rows_come_in_order_as_text(source):
    assert asked(source(), query_of("SELECT id, name FROM item ORDER BY id")).rows == [(b"1", b"one"), (b"2", None)]


def test_text_is_what_the_subscriber_would_see(source):
    settings = TextSettings(
        time_zone="Asia/Tokyo",
        date_style="German",
        interval_style="iso_8601",
        bytea_output="escape",
        extra_float_digits=-3,
    )
    sql = "SELECT at, interval '1 day 2 hours', '\\x41ff'::bytea, 0.1::float8 / 3 FROM item WHERE at IS NOT NULL"
    assert asked(source(), query_of(sql, text_settings=settings)).rows == [
        (b"01.07.2024 21:00:00 JST", b"P1DT2H", b"A\\377", b"0.0333333333333")
    ]


def test_parameters_filter_and_settings_count(source):
    sql = "SELECT id, $2::text AS given, current_setting('app.who') FROM item WHERE id > $1"
    query = query_of(sql, b"0", None, filter="id < 2", settings_read={"app.who": "me"})
    assert asked(source(), query).rows == [(b"1", None, b"me")]


def test_the_role_is_the_subscribers_and_afterwards_ours_again(source, admin):
    admin.execute("CREATE TABLE secret (id int)")
    one = source()
    answer = asked(one, query_of("SELECT * FROM secret"))
    assert (answer.sqlstate, answer.message) == ("42501", "permission denied for table secret")
    assert asked(one, query_of("SELECT current_user")).rows == [(b"reader",)]
    assert admin.execute("SELECT count(*) FROM item").fetchone() == (2,)


def test_an_error_is_in_postgresql_s_words_and_the_next_run_is_good(source, admin):
    one = source()
    query = query_of("SELECT 1 / (id - 1) FROM item")
    bad = asked(one, query)
    assert (type(bad), bad.sqlstate, bad.message) == (RanBadly, "22012", "division by zero")
    admin.execute("DELETE FROM item WHERE id = 1")
    assert asked(one, query).rows == [(b"1",)]


def test_a_result_without_end_is_cut_off(source):
    one = source(max_rows=1500)
    bad = asked(one, query_of("SELECT a FROM generate_series(1, 10000) a, generate_series(1, 10000)"))
    assert (bad.sqlstate, bad.message) == ("54000", "the result has more than 1500 rows")
    assert len(asked(one, query_of("SELECT * FROM generate_series(1, 1500)")).rows) == 1500


def test_a_query_that_takes_too_long_is_ended(source):
    bad = asked(source(statement_timeout_ms=200), query_of("SELECT count(*) FROM generate_series(1, 10000000000)"))
    assert (bad.sqlstate, bad.message) == ("57014", "canceling statement due to statement timeout")


def test_nothing_untrusted_is_run(source, admin):
    admin.execute(
        "GRANT ALL ON SCHEMA public TO other; SET ROLE other; "
        "CREATE FUNCTION takeover() RETURNS text STABLE LANGUAGE sql AS 'SELECT set_config(''role'', ''none'', true)'; "
        "RESET ROLE"
    )
    bad = asked(source(), query_of("SELECT takeover()"))
    assert (bad.sqlstate, bad.message) == (
        "42501",
        "function public.takeover() is owned by other, whose functions are not trusted here",
    )


def test_a_service_without_superuser_s_rights_does_the_same(admin, postgres_server):
    admin.execute("DROP ROLE IF EXISTS plain_service; CREATE ROLE plain_service LOGIN PASSWORD 'x' IN ROLE reader")
    dsn = postgres_server.dsn_of(admin.info.dbname, "plain_service", "x")
    one = Source(Postgres(dsn=dsn), Budget(**QUICK))
    try:
        query = query_of("SELECT current_user, count(*) FROM item")
        assert [asked(one, query).rows, asked(one, query).rows] == [[(b"reader", b"2")]] * 2
        assert asked(one, query_of("SELECT 1", role="other")).message == 'permission denied to set role "other"'
        assert asked(one, query_of("SELECT pg_sleep(1)")).message.startswith("function pg_sleep() has effects")
    finally:
        one.close()
        admin.execute("DROP ROLE plain_service")


def test_the_snapshot_tells_which_commits_the_answer_contains(source, admin, database):
    with psycopg.connect(database) as late:
        late.execute("INSERT INTO item VALUES (3)")
        open_xid = int(late.execute("SELECT pg_current_xact_id()::text").fetchone()[0])
        with admin.transaction():
            admin.execute("INSERT INTO item VALUES (4)")
            done_xid = int(admin.execute("SELECT pg_current_xact_id()::text").fetchone()[0])
        answer = asked(source(), query_of("SELECT id FROM item WHERE id > 2"))
        assert answer.rows == [(b"4",)]
        assert (answer.snapshot.sees(done_xid), answer.snapshot.sees(open_xid)) == (True, False)


def test_the_moment_is_that_of_now(source):
    answer = asked(source(), query_of("SELECT (extract(epoch FROM now()) * 1000000)::bigint"))
    assert answer.rows == [(str(answer.moment_us).encode(),)]


def test_many_requests_for_a_query_lead_to_few_runs(source):
    one = source(min_interval_s=0.2)
    begun_s = time.monotonic()
    found: list[Ran | RanBadly] = []
    # 200 changes in a second and more
    while time.monotonic() < begun_s + 1.5:
        one.ask(b"q", query_of("SELECT * FROM item"))
        found += one.ran()
        time.sleep(0.005)
    assert 1 <= len(found) <= (time.monotonic() - begun_s) / 0.2 + 2


def test_a_slow_query_leaves_room_for_the_others(source, admin):
    one = source(query_share=0.25, statement_timeout_ms=20_000)
    slow, quick = query_of("SELECT count(*) FROM generate_series(1, 1500000)"), query_of("SELECT 1", role="other")
    found: list[Ran | RanBadly] = []
    deadline = time.monotonic() + WITHIN_S
    # Both are always wanted; quick ones of another role are not behind the slow one.
    while sum(answer.query_id == b"slow" for answer in found) < 3 and time.monotonic() < deadline:
        one.ask(b"slow", slow)
        one.ask(b"quick", quick)
        found += one.ran()
        time.sleep(0.005)
    assert sum(answer.query_id == b"quick" for answer in found) > 3


def test_a_crowd_of_bad_queries_never_has_more_than_its_share_of_connections(source, admin):
    one = source(query_share=0.25, statement_timeout_ms=20_000)
    bad = query_of("SELECT count(*) FROM generate_series(1, 300000)")
    active = f"SELECT count(*) {OURS} AND state <> 'idle' AND usename ~ '^tidewire_runner'"
    most, ran = 0, 0
    deadline = time.monotonic() + WITHIN_S
    # 20 queries of one role, at 200 changes a second.
    while ran < 30 and time.monotonic() < deadline:
        for number in range(20):
            one.ask(bytes([number]), bad)
        most = max(most, admin.execute(active).fetchone()[0])
        ran += len(one.ran())
        time.sleep(0.005)
    assert (most, ran >= 30) == (1, True)


def test_a_login_gets_no_more_connections_by_setting_other_roles(source, admin):
    admin.execute(
        """
        DO $$ BEGIN CREATE ROLE two_faced LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
        GRANT reader, other TO two_faced;
        """
    )
    one = source(statement_timeout_ms=3000)
    endless = "SELECT count(*) FROM generate_series(1, 10000000000)"
    for role in ("reader", "other"):
        one.ask(role.encode(), query_of(endless, role=role, login="two_faced"))
    one.ask(b"quick", query_of("SELECT 1", role="reader"))
    first = answers(one)[0]
    assert first.query_id == b"quick", first


def test_a_table_that_is_locked_is_waited_for_without_an_error(source, admin, database):
    one = source(statement_timeout_ms=2000)
    with psycopg.connect(database) as locking:
        locking.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
        one.ask(b"q", query_of("SELECT count(*) FROM item"))
        waits: set[object] = set()
        deadline = time.monotonic() + WITHIN_S
        # Two different ones: the first was given up.
        while len(waits) < 2 and time.monotonic() < deadline:
            waits |= set(admin.execute(f"SELECT xact_start {OURS} AND wait_event_type = 'Lock'").fetchall())
            time.sleep(0.01)
        assert (len(waits), one.ran()) == (2, [])
    assert answers(one)[0].rows == [(b"2",)]


def test_connections_are_few_and_closed_when_idle(source, admin):
    one = source(idle_s=0.3)
    for number in range(20):
        one.ask(str(number).encode(), query_of("SELECT 1", role="reader" if number % 2 else "other"))
    answers(one, 20)
    count = f"SELECT count(*) {OURS}"
    # One of a runner and one of ours for each of the two roles.
    assert admin.execute(count).fetchone()[0] <= 4
    deadline = time.monotonic() + WITHIN_S
    while admin.execute(count).fetchone()[0] and time.monotonic() < deadline:
        one.ran()
        time.sleep(0.05)
    assert admin.execute(count).fetchone() == (0,)


def test_a_connection_that_breaks_is_made_again(source, admin):
    one = source()
    asked(one, query_of("SELECT 1"))
    admin.execute(f"SELECT pg_terminate_backend(pid, 5000) {OURS}")
    assert asked(one, query_of("SELECT 2")).rows == [(b"2",)]


def test_what_is_forgotten_is_not_run(source):
    one = source()
    one.ask(b"a", query_of("SELECT count(*) FROM generate_series(1, 1000000)"))
    one.ask(b"b", query_of("SELECT 2"))
    one.forget(b"b")
    one.ask(b"c", query_of("SELECT 3"))
    assert {answer.query_id for answer in answers(one, 2)} == {b"a", b"c"}
