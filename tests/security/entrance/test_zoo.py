"""Hostile code in a subscriber's query never gets further than the subscriber himself."""

import threading
from pathlib import Path

import psycopg
import pytest

from services.chassis.postgres import Postgres
from services.sqlguard import entrance
from services.sqlguard.entrance import Deadlines
from services.sqlguard.entrance_install import Isolation
from services.sqlguard.refusal import Refused
from services.sqlguard.runners import Runners, Subscriber
from services.sqlguard.trust import examine
from tests.security.entrance.conftest import SENTINEL, UNLESS_THERE, Lair

OWNED = Path("/tmp/tidewire-owned")
ESCAPES = [
    "SELECT lair.escape()",
    "SELECT lair.escape(1)",
    "SELECT lair.escape_calmly(7)",
    "SELECT id FROM item WHERE lair.escape() IS NOT NULL",
    "SELECT '(1,2)'::lair.pair",
    "SELECT '(1,2)' OPERATOR(lair.===) '(1,3)'",
    "SELECT '(1,2)'::lair.a_type_whose_name_is_longer_than_the_sixty_three_bytes_that_it_keeps",
    "SELECT '(1,2)'::lair.a_type_whose_name_is_longer_than_the_sixty_three_bytes_that_it_really_has",
    "SELECT 1::lair.odd",
    "SELECT id FROM item WHERE NOT id OPERATOR(lair.<=>) 3",
    "SELECT to_json('ok'::lair.mood)",
    "SELECT json_build_object('m', 'ok'::lair.mood)",
    "SELECT json_agg(row('ok'::lair.mood))",
    "SELECT lair.hold()",
    "SELECT lair.cursor()",
    "SELECT lair.litter()",
    "SELECT 1); SELECT lair.escape(); SELECT (1",
]


@pytest.mark.parametrize("sql", ESCAPES)
def test_hostile_code_stays_its_owner_s_wherever_it_stands(lair: Lair, sql: str):
    outcome = lair.attempt(sql)
    assert SENTINEL not in outcome
    assert not OWNED.exists()
    # The `lair` fixture asserts that no code of mallory's ever ran as anybody else.
    assert not [report for report in lair.reports if report.startswith("done: ") and "RESET ALL" not in report]


def test_the_code_does_run_and_reports_about_itself(lair: Lair):
    """So that the absence of reports means something."""
    assert lair.rows("SELECT lair.escape()") == [(b"permission denied for table secret",)]
    assert lair.identities == {"mallory"}


def test_without_the_entrance_the_same_code_becomes_the_service(weak_lair: Lair):
    """What the weaker mode cannot prevent, and what the test above would look like then."""
    weak_lair.attempt("SELECT lair.escape()")
    assert "weak_service" in weak_lair.identities


def test_a_role_that_may_create_functions_is_refused_in_the_weaker_mode(weak_lair: Lair):
    strict = Lair(weak_lair.dsn)
    with pytest.raises(Refused, match='role "mallory" may create objects') as refusal:
        strict.rows("SELECT 1")
    assert refusal.value.sqlstate == "42501"
    strict.runners.close()


def test_what_is_left_behind_does_not_reach_the_next_query(lair: Lair):
    for left in ("SELECT lair.litter()", "SELECT lair.hold()", "SELECT lair.cursor()"):
        lair.attempt(left)
        with lair.inside() as inside:
            assert inside.rows("SELECT id FROM item ORDER BY 1", (), (), columns=1) == [(b"1",), (b"2",)]
            told = inside.ask(
                "SELECT current_setting('statement_timeout'), current_setting('client_encoding')", columns=2
            )
            assert told == [(b"10s", b"UTF8")]
            left_open = "SELECT count(*)::text FROM pg_cursors WHERE is_holdable OR name = 'open_one'"
            assert inside.ask(left_open, columns=1) == [(b"0",)]


def test_the_runner_may_enter_no_role_but_that_of_its_connection(lair: Lair):
    """Code that became the login itself: what could it do?"""
    with lair.runners.borrowed(Subscriber("mallory", "mallory")) as runner:
        login = runner.connection
        for way in ("SET ROLE victim", "SET ROLE postgres", "SET SESSION AUTHORIZATION victim", "SET ROLE mallory"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                login.execute(way)
        for way in (
            "SELECT _tidewire.admit(pg_backend_pid(), 'victim', 'victim', true)",
            "SELECT * FROM _tidewire.runner_login('a', 'b')",
            "SELECT * FROM _tidewire.runner_password",
            "UPDATE _tidewire.runners SET role = 10",
            "TABLE public.secret",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                login.execute(way)
        with login.transaction(force_rollback=True):
            (entrance_name,) = login.execute("SELECT _tidewire.enter()").fetchone()
            called = login.execute(
                f"SELECT * FROM _tidewire.{entrance_name}('SELECT current_user::text', true) AS r(x text)"
            )
            assert called.fetchone() == ("mallory",)


def test_a_runner_that_nobody_admitted_enters_nothing(lair: Lair):
    with lair.runners.borrowed(Subscriber("mallory", "mallory")) as runner:
        dsn = runner.connection.info.dsn + f" password={runner.connection.info.password}"
        with (
            psycopg.connect(dsn) as stranger,
            pytest.raises(psycopg.errors.InsufficientPrivilege, match="enter no role"),
        ):
            stranger.execute("SELECT _tidewire.enter()")


def test_a_login_that_may_not_be_the_role_is_refused(lair: Lair):
    for subscriber, words in (
        (Subscriber("mallory", "victim"), 'permission denied to set role "victim"'),
        (Subscriber("mallory", "nobody"), 'role "nobody" does not exist'),
        (Subscriber("postgres", "postgres"), "may not subscribe here"),
    ):
        with pytest.raises(Refused, match=words), lair.runners.borrowed(subscriber):
            pass


def test_a_role_that_subscribed_can_be_dropped(lair: Lair, lair_dsn: str):
    with psycopg.connect(lair_dsn, autocommit=True) as admin:
        admin.execute("CREATE ROLE passing; GRANT SELECT ON item TO passing")
        assert lair.rows("SELECT count(*) FROM public.item", role="passing") == [(b"2",)]
        admin.execute("REVOKE ALL ON item FROM passing")
        admin.execute("DROP ROLE passing")
        with pytest.raises(Refused, match='role "passing" does not exist'):
            lair.rows("SELECT 1", role="passing")


def test_two_statements_are_not_one(lair: Lair):
    with lair.inside() as inside, pytest.raises(Refused, match="multiple commands"):
        inside.parse("SELECT 1; SELECT lair.escape()")
    assert lair.identities == set()


def test_a_tree_that_only_a_function_told_of_does_not_count(lair: Lair):
    with lair.inside() as inside:
        parsed = inside.parse("SELECT lair.shout() FROM item")
        assert 4242 not in parsed.relations and len(parsed.relations) == 1


def test_a_tree_that_code_could_have_exchanged_is_refused(lair: Lair):
    """While the statement is read, mallory's check prints a tree over the secret table and silences the true one."""
    with lair.inside() as inside, pytest.raises(Refused, match="runs code while PostgreSQL reads it"):
        inside.parse("SELECT '(1,2)'::lair.forged_pair, id FROM item")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT '(1,2)' OPERATOR(lair.===) '(1,3)'",
        "SELECT '(1,2)'::lair.a_type_whose_name_is_longer_than_the_sixty_three_bytes_that_it_really_has",
        "SELECT id FROM item WHERE NOT id OPERATOR(lair.<=>) 3",
        "SELECT to_json('ok'::lair.mood)",
        "SELECT json_build_object('m', 'ok'::lair.mood)",
    ],
)
def test_the_second_line_refuses_what_it_used_to_miss(lair: Lair, sql: str):
    words = "mallory, whose functions are not trusted|runs code while PostgreSQL reads it"
    with lair.inside() as inside, pytest.raises(Refused, match=words):
        examine(inside, sql)
    # Reading a literal may run its checks, inside the role alone.
    assert lair.identities <= {"mallory"}


def test_what_others_wrote_is_refused_to_superusers_even_where_they_may_subscribe(lair_dsn: str):
    lair = Lair(lair_dsn, superusers_subscribe=True)
    for sql in ("SELECT lair.escape_calmly(1)", "SELECT '(1,2)'::lair.pair", "SELECT to_json('ok'::lair.mood)"):
        with lair.inside("postgres") as inside, pytest.raises(Refused, match="not trusted"):
            examine(inside, sql)
    with lair.inside("postgres") as inside:
        examine(inside, "SELECT text FROM public.secret")
    assert lair.identities == set()
    lair.runners.close()


def test_toggling_a_check_between_reading_and_running_gains_nothing(lair: Lair, lair_dsn: str):
    stop = threading.Event()

    def toggle() -> None:
        with psycopg.connect(lair_dsn, autocommit=True) as connection:
            connection.execute("SET ROLE mallory")
            connection.execute(
                "CREATE DOMAIN lair.toggled AS int; CREATE TYPE lair.toggled_pair AS (a int, b lair.toggled)"
            )
            while not stop.is_set():
                connection.execute("ALTER DOMAIN lair.toggled ADD CONSTRAINT c CHECK (lair.checked(VALUE)) NOT VALID")
                connection.execute("ALTER DOMAIN lair.toggled DROP CONSTRAINT c")
            connection.execute("DROP TYPE lair.toggled_pair; DROP DOMAIN lair.toggled")

    toggling = threading.Thread(target=toggle)
    toggling.start()
    try:
        for _ in range(100):
            assert SENTINEL not in lair.attempt("SELECT '(1,2)'::lair.toggled_pair, 3::lair.toggled", columns=2)
    finally:
        stop.set()
        toggling.join()


def test_a_query_that_catches_its_cancellation_is_ended_all_the_same(lair: Lair, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(entrance, "GRACE_S", 0.5)
    with (
        pytest.raises(Refused, match="did not end at its timeout"),
        lair.inside(deadlines=Deadlines(300, 300)) as inside,
    ):
        inside.rows("SELECT lair.stubborn()", (), (), columns=1)
    assert lair.rows("SELECT 1") == [(b"1",)]


def test_the_runner_survives_a_lost_password(lair_dsn: str):
    """As after a crash of PostgreSQL, which empties unlogged tables: a new one is made, and old processes learn it."""
    before = Lair(lair_dsn)
    before.rows("SELECT 1")
    with psycopg.connect(lair_dsn, autocommit=True) as admin:
        admin.execute("TRUNCATE _tidewire.runner_password, _tidewire.runners")
    after = Lair(lair_dsn)
    assert after.rows("SELECT 1") == [(b"1",)]
    # The first one's connection is still there, but admitted anew; then it needs a new connection as well.
    assert before.rows("SELECT 1") == [(b"1",)]
    before.runners.close()
    assert before.rows("SELECT 1") == [(b"1",)]
    before.runners.close()
    after.runners.close()


def test_the_strict_mode_is_the_one_in_use(lair: Lair):
    with lair.runners.borrowed(Subscriber("mallory", "mallory")) as runner:
        assert runner.isolation is Isolation.ENTRANCE


def test_a_service_that_is_no_superuser_uses_what_a_superuser_installed(lair: Lair, lair_dsn: str, server):
    lair.rows("SELECT 1")
    with psycopg.connect(lair_dsn, autocommit=True) as admin:
        admin.execute(
            UNLESS_THERE.format("granted_service LOGIN PASSWORD 'x'")
            + "GRANT USAGE ON SCHEMA _tidewire TO granted_service; GRANT EXECUTE ON FUNCTION _tidewire.runner_name(),"
            "_tidewire.runner_login(text, text), _tidewire.admit(int, text, text, boolean) TO granted_service;"
        )
        dsn = server.dsn_of(admin.info.dbname, "granted_service", "x")
    runners = Runners(Postgres(dsn=dsn), application_name="zoo")
    with runners.borrowed(Subscriber("mallory", "mallory")) as runner:
        assert runner.isolation is Isolation.ENTRANCE
    runners.close()
