"""Schema pgr: what may be registered, by whom, and what is recorded of it (P1 to P7, decision 18)."""

import psycopg
import pytest
from psycopg import errors

from services.capture.outbound import watch, watch_removal
from services.recompute.core.notify import messages
from tests.conformance.pg_reactive import vector_of


@pytest.fixture(scope="module")
def dsn(postgres_server):
    dsn = postgres_server.create_database("notify_pgr")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, status text)")
        watch.install(connection)
    yield dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        watch_removal.uninstall(connection, "none")
        gone = "SELECT to_regnamespace('pgr') IS NULL AND to_regnamespace('_tidewire') IS NULL"
        assert connection.execute(gone).fetchone() == (True,)
        assert connection.execute("SELECT current_setting('pg_reactive.database', true)").fetchone() is not None
    postgres_server.drop_database("notify_pgr")


@pytest.fixture
def connection(dsn):
    with psycopg.connect(dsn, autocommit=True) as made:
        yield made
        made.execute("RESET SESSION AUTHORIZATION")
        made.execute("SELECT pgr.unsubscribe(query_id) FROM pgr.subscriptions")


def one(connection, statement, *values):
    return connection.execute(statement, values).fetchone()[0]


@pytest.mark.parametrize(
    ("rest", "mode", "audience"),
    [
        ("", "delta", None),
        (", 'notify'", "notify", None),
        (", mode => 'notify'", "notify", None),
        (", p_mode => 'notify'", "notify", None),
        (""", audience => '{"sub": "42"}'""", "delta", {"sub": "42"}),
        (""", audience => '{"sub": "42"}'::jsonb""", "delta", {"sub": "42"}),
        (""", p_audience => '{"sub": "42"}'""", "delta", {"sub": "42"}),
        (""", 'delta', '{"sub": "42"}'""", "delta", {"sub": "42"}),
        (""", 'notify', '{"sub": "42"}'::jsonb""", "notify", {"sub": "42"}),
        (""", mode => 'notify', audience => '{"sub": "42"}'""", "notify", {"sub": "42"}),
        (""", audience => '{"sub": "42"}'::jsonb, mode => 'notify'""", "notify", {"sub": "42"}),
        (""", p_mode => 'notify', p_audience => '{"sub": "42"}'""", "notify", {"sub": "42"}),
    ],
)
def test_p3_p4_positional_and_named_arguments(connection, rest, mode, audience):
    """P3, P4: the answer is jsonb, and pgr.subscription_meta tells the committed mode, audience and gen (P34)."""
    answer = one(connection, f"SELECT pgr.subscribe('q', 'SELECT id FROM orders'{rest})")
    assert (answer["query_id"], answer["mode"]) == ("q", mode)
    meta = connection.execute("SELECT mode, audience, gen FROM pgr.subscription_meta('q')").fetchall()
    assert meta == [(mode, audience, answer["gen"])]


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM orders",
        "INSERT INTO orders VALUES (1) RETURNING id",
        "DROP TABLE orders",
        "WITH gone AS (DELETE FROM orders RETURNING id) SELECT * FROM gone",
        "SELECT 1 INTO made",
        "SELECT 1; SELECT 2",
        "SELECT 1) AS a; DROP TABLE orders; SELECT * FROM (SELECT 1",
        "SELECT nothing FROM orders",
        "",
    ],
)
def test_p5_only_a_select_is_registered(connection, query):
    with pytest.raises(psycopg.Error):
        connection.execute("SELECT pgr.subscribe('q', %s)", [query])
    assert one(connection, "SELECT count(*) FROM pgr.get_subscriptions()") == 0
    assert one(connection, "SELECT to_regclass('orders') IS NOT NULL") is True


def test_p6_revoked_from_public_and_a_granted_role_is_recorded_by_the_function(connection):
    """P6: who registers is a fact of the session."""
    connection.execute("DROP ROLE IF EXISTS notify_admin")
    connection.execute("CREATE ROLE notify_admin")
    try:
        connection.execute("SET ROLE notify_admin")
        for statement in ("SELECT pgr.subscribe('q', 'SELECT 1')", "TABLE pgr.subscriptions", "SELECT pgr.stats()"):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(statement)
        connection.execute("RESET ROLE")
        connection.execute("GRANT USAGE ON SCHEMA pgr TO notify_admin")
        connection.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgr TO notify_admin")
        connection.execute("SET ROLE notify_admin")
        # It registers with its own rights.
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("SELECT pgr.subscribe('q', 'SELECT id FROM orders')")
        connection.execute("SELECT pgr.subscribe('q', 'SELECT 1 AS one')")
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("SELECT _tidewire.register('q', 'SELECT 1', 'delta', NULL, '{}', '{}')")
        connection.execute("RESET ROLE")
        assert connection.execute("SELECT role FROM pgr.persisted_subscriptions").fetchall() == [("notify_admin",)]
    finally:
        connection.execute("RESET ROLE")
        connection.execute("DROP OWNED BY notify_admin")
        connection.execute("DROP ROLE notify_admin")


def test_p1_p7_the_settings_are_shown_and_the_limit_counts(connection):
    """P1, P7, P31: SHOW works in every session."""
    shown = {name: one(connection, f"SHOW pg_reactive.{name}") for name in ("notify_channel", "max_subscriptions",
             "batch_invalidation", "async_recompute", "database")}  # fmt: skip
    assert shown == {"notify_channel": "pgr", "max_subscriptions": "1024", "batch_invalidation": "on",
                     "async_recompute": "off", "database": "notify_pgr"}  # fmt: skip
    connection.execute("SET pg_reactive.max_subscriptions = 9999")  # a session's own counts for nothing
    connection.execute("ALTER DATABASE notify_pgr SET pg_reactive.max_subscriptions = 1")
    try:
        connection.execute("SELECT pgr.subscribe('a', 'SELECT 1')")
        with pytest.raises(errors.ConfigurationLimitExceeded):
            connection.execute("SELECT pgr.subscribe('b', 'SELECT 1')")
        connection.execute("SELECT pgr.subscribe('a', 'SELECT 2')")
        assert ("max_subscriptions", "1") in connection.execute("SELECT * FROM pgr.stats()").fetchall()
    finally:
        connection.execute("ALTER DATABASE notify_pgr SET pg_reactive.max_subscriptions = 1024")


def test_p4_the_functions_of_the_document(connection):
    """P4, P6: pgr.api, with the names, types and defaults that clients of pg_reactive use."""
    vector = vector_of("pgr.api")
    found = {
        f"pgr.{name}({arguments}) RETURNS {result}"
        for name, arguments, result in connection.execute(
            "SELECT proname, pg_get_function_arguments(oid), pg_get_function_result(oid) FROM pg_proc "
            "WHERE pronamespace = 'pgr'::regnamespace"
        ).fetchall()
    }
    assert vector["signature"] in {
        one.replace("'delta'::text", "'delta'").replace("NULL::jsonb", "NULL") for one in found
    }
    assert {
        "pgr.unsubscribe(p_query_id text) RETURNS boolean",
        "pgr.get_subscriptions() RETURNS SETOF pgr.subscriptions",
        "pgr.restore_subscriptions() RETURNS integer",
        "pgr.stats() RETURNS TABLE(metric text, value text)",
        "pgr.subscription_meta(query_id text) RETURNS TABLE(mode text, audience jsonb, gen bigint)",
    } <= found
    connection.execute("SELECT pgr.subscribe('q', 'SELECT 1 AS one', 'notify')")
    for relation in ("pgr.subscriptions", "pgr.persisted_subscriptions", "pgr.get_subscriptions()"):
        assert connection.execute(f"SELECT query_id, mode FROM {relation}").fetchall() == [("q", "notify")]
    assert ("subscriptions_notify", "1") in connection.execute("SELECT * FROM pgr.stats()").fetchall()
    assert one(connection, "SELECT pgr.unsubscribe('q')") is True
    assert one(connection, "SELECT pgr.restore_subscriptions()") == 0


def test_p7_the_settings_have_the_document_s_defaults(connection):
    """P7: pgr.gucs; the database is our own, since the door is installed in each."""
    wanted = {name: str(default) for name, (default, _) in vector_of("pgr.gucs")["gucs"].items()}
    wanted["pg_reactive.database"] = "notify_pgr"
    assert {name: one(connection, f"SHOW {name}") for name in wanted} == wanted


def test_p17_what_fits_the_budget_fits_postgresql_s_own_limit(connection):
    """P17: pgr.pg_hard_limit, asked of PostgreSQL itself."""
    for case in vector_of("pgr.pg_hard_limit")["cases"]:
        try:
            connection.execute("SELECT pg_notify('pgr', repeat('x', %s))", [case["bytes"]])
            found = "ok"
        except errors.InvalidParameterValue as error:
            found = f"ERROR {error.diag.message_primary}"
        assert found == case["expect"]
        assert messages.budget("") < case["bytes"]


def test_p27_gens_grow_in_the_order_of_commits(connection, dsn):
    """P27, P4: a rolled-back registration leaves nothing, and a second one waits for the first."""
    with psycopg.connect(dsn) as first, psycopg.connect(dsn, autocommit=True) as second:
        begun = one(first, "SELECT pgr.subscribe('q', 'SELECT 1')")["gen"]
        second.execute("SET lock_timeout = 100")
        with pytest.raises(errors.LockNotAvailable):
            second.execute("SELECT pgr.subscribe('q', 'SELECT 2')")
        first.rollback()
        assert second.execute("SELECT * FROM pgr.subscription_meta('q')").fetchall() == []
        assert one(second, "SELECT pgr.subscribe('q', 'SELECT 2')")["gen"] > begun
    assert one(connection, "SELECT pgr.unsubscribe('q')") is True
    assert one(connection, "SELECT pgr.unsubscribe('q')") is False
