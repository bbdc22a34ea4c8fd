"""What a client may subscribe to, asked of a real PostgreSQL under the client's role."""

import asyncio
import os
import time

import psycopg
import pytest

from services.chassis.postgres import Postgres
from services.gateway.core.encoders.binary import WITHOUT_SUBSCRIPTION
from services.gateway.core.principal import Backend, Principal
from services.gateway.core.requests import SubscribeRequest
from services.gateway.errors import SubscribeRefused
from services.gateway.outbound.checks import Checks
from services.gateway.outbound.roles import Roles
from services.gateway.outbound.validation import Validation

NAME = f"validation_{os.getpid()}"
CLIENT = f"client_{os.getpid()}"
SCHEMA = f"""
    CREATE ROLE {CLIENT};
    CREATE TABLE orders (id int PRIMARY KEY, customer int, owner text);
    CREATE TABLE secret (id int);
    CREATE SCHEMA mine;
    CREATE TABLE mine.orders (id int);
    CREATE TABLE mine."Odd Name" (id int);
    CREATE VIEW recent AS SELECT * FROM orders;
    CREATE SEQUENCE numbers;
    CREATE TABLE guarded (id int, tenant text);
    ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
    CREATE POLICY own ON guarded USING (tenant = current_setting('application_name'));
    GRANT USAGE ON SCHEMA mine TO {CLIENT};
    GRANT SELECT ON orders, mine.orders, mine."Odd Name", recent, guarded TO {CLIENT};
    GRANT ALL ON numbers TO {CLIENT};
    CREATE FUNCTION theirs() RETURNS int LANGUAGE sql STABLE AS 'SELECT 1';
    ALTER FUNCTION theirs() OWNER TO {CLIENT};
"""


@pytest.fixture(scope="module")
def dsn(postgres_server):
    dsn = postgres_server.create_database(NAME)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SCHEMA)
    yield dsn
    postgres_server.drop_database(NAME)
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP ROLE {CLIENT}")


@pytest.fixture(scope="module")
def validation(dsn):
    made = Validation(Postgres(dsn=dsn, superusers_subscribe=True), statement_timeout_ms=60_000)
    yield made
    made.close()


def client(**settings):
    given = {"search_path": "public", **settings}
    return Principal("c", CLIENT, NAME, given, frozenset(given) - {"app.t"}, login=CLIENT)


def check(validation, sql, filter=None, parameters=(), **settings):
    return validation.check(SubscribeRequest(query=sql, parameters=parameters, filter=filter), client(**settings))


def words(validation, sql, filter=None):
    with pytest.raises(SubscribeRefused) as refusal:
        check(validation, sql, filter)
    return refusal.value.code not in WITHOUT_SUBSCRIPTION, refusal.value.message


def names(checked):
    return {(one.written_schema, one.written_name): f"{one.schema}.{one.name}" for one in checked.names}


def test_names_are_resolved_by_the_search_path_of_the_client(validation):
    sql = 'SELECT * FROM Orders o JOIN mine."Odd Name" n ON n.id = o.id'
    assert names(check(validation, sql)) == {("", "orders"): "public.orders", ("mine", "Odd Name"): "mine.Odd Name"}
    assert names(check(validation, sql, search_path="mine, public"))["", "orders"] == "mine.orders"


def test_a_name_of_a_cte_is_no_relation_unless_it_is_one_elsewhere(validation):
    checked = check(
        validation, "WITH secret AS (SELECT 1 AS id), orders AS (SELECT * FROM orders) SELECT * FROM secret, orders"
    )
    assert (names(checked), checked.tables) == ({("", "orders"): "public.orders"}, 1)


def test_tables_are_counted_once_and_views_are_what_is_named(validation):
    checked = check(validation, "SELECT * FROM orders a, orders b, recent r, generate_series(1, 2)")
    assert (checked.tables, set(names(checked))) == (2, {("", "orders"), ("", "recent")})


def test_settings_that_the_query_or_a_policy_reads_are_told_as_far_as_they_are_known(validation):
    known = {"application_name": "shop", "app.t": "from the startup message, maybe changed since"}
    assert check(validation, "SELECT id FROM orders", **known).settings_read == {}
    assert check(validation, "SELECT id FROM guarded", **known).settings_read == {"application_name": "shop"}
    assert check(validation, "SELECT current_setting('TimeZone')", timezone="CET").settings_read == {"timezone": "CET"}
    assert (
        check(validation, "SELECT * FROM orders", "id > 5 OR current_setting('app.t', true) = '1'").settings_read == {}
    )
    assert check(validation, "SELECT current_setting('search_path')").settings_read == {"search_path": "public"}


def test_settings_by_which_the_text_means_something_else_are_always_told(validation):
    own = {"transform_null_equals": "on", "lc_monetary": "C", "default_text_search_config": "pg_catalog.simple"}
    assert check(validation, "SELECT id FROM orders", **own).settings_read == own
    assert check(validation, "SELECT current_setting('lc_monetary')", **own).settings_read == own


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE orders SET customer = 1",
        "INSERT INTO nowhere VALUES (1)",
        "WITH w AS (DELETE FROM orders RETURNING id) SELECT * FROM w",
        "SELECT * INTO elsewhere FROM orders",
        "SELECT * FROM orders FOR UPDATE",
        "DROP TABLE orders",
        "SET search_path = mine",
        "EXPLAIN SELECT 1",
    ],
)
def test_what_is_no_pure_select_is_refused_under_an_id(validation, sql):
    assert words(validation, sql) == (True, "Only SELECT queries can be subscribed to")


def test_effects_and_code_of_others_are_refused_before_anything_runs(validation):
    assert words(validation, "SELECT nextval('numbers')") == (
        True,
        "Execution error: function nextval() has effects: it cannot be subscribed to",
    )
    numbered, message = words(validation, "SELECT theirs()")
    assert (numbered, f"owned by {CLIENT}" in message) == (True, True)
    assert "set_config" in words(validation, "SELECT id FROM orders", "set_config('role', 'none', true) = ''")[1]


def test_errors_come_in_the_words_of_the_document(validation):
    assert words(validation, "SELECT * FROM nowhere") == (True, "Execution error: table 'nowhere' does not exist")
    assert words(validation, "SELECT * FROM secret") == (True, "Execution error: permission denied for table 'secret'")
    assert words(validation, "SELECT FROM WHERE")[0] is False
    assert words(validation, "SELECT 1; SELECT 2")[0] is False
    assert words(validation, "SELECT id FROM orders", "id >")[1].startswith("Filter parse error: ")
    assert words(validation, "SELECT id FROM orders", "nothing = 1") == (
        True,
        'Execution error: column "nothing" does not exist',
    )


def test_a_refusal_leaves_the_connection_good_and_its_role_our_own(validation):
    words(validation, "SELECT 1/0 FROM nowhere")
    assert check(validation, "SELECT id FROM orders WHERE customer = $1;", parameters=(b"7",)).tables == 1


async def test_a_storm_of_alike_subscribes_is_a_few_checks(dsn):
    """Those who share a check came before it began; a refusal is shared as well."""
    counted = Counted(Postgres(dsn=dsn, superusers_subscribe=True), statement_timeout_ms=60_000)
    checks = Checks(counted)
    alike = [checks.check(SubscribeRequest("SELECT id FROM orders"), client()) for _ in range(300)]
    others = [checks.check(SubscribeRequest("SELECT id FROM orders", filter=f"id > {n}"), client()) for n in range(5)]
    refused = [checks.check(SubscribeRequest("SELECT id FROM nowhere"), client()) for _ in range(50)]
    answers = await asyncio.gather(*alike, *others, *refused, return_exceptions=True)
    assert {answer.tables for answer in answers[:305]} == {1}
    assert {str(answer) for answer in answers[305:]} == {"Execution error: table 'nowhere' does not exist"}
    assert len({answer.barrier_id for answer in answers[:300]}) <= 6
    assert counted.checks <= 15
    counted.close()


class Counted(Validation):
    checks = 0

    def check(self, subscribe, client):
        self.checks += 1
        return super().check(subscribe, client)


def test_a_locked_table_holds_up_nobody_for_long(validation, dsn):
    with psycopg.connect(dsn) as migration:
        migration.execute("LOCK TABLE mine.orders IN ACCESS EXCLUSIVE MODE")
        began_s = time.monotonic()
        with pytest.raises(SubscribeRefused, match="Execution error: canceling statement due to lock timeout"):
            check(validation, "SELECT id FROM mine.orders")
        assert time.monotonic() - began_s < 10
    assert check(validation, "SELECT id FROM mine.orders").tables == 1


def end_all_sessions(dsn):
    """As a PostgreSQL that was killed and came back has."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def test_checking_connections_that_died_while_idle_are_replaced(dsn):
    made = Validation(Postgres(dsn=dsn, superusers_subscribe=True), statement_timeout_ms=60_000)
    checks, roles = Checks(made), Roles(Postgres(dsn=dsn, superusers_subscribe=True))
    for _ in range(3):
        assert (await checks.check(SubscribeRequest("SELECT id FROM orders"), client())).tables == 1
        assert await roles.temporaries(Backend(pid=0, user="nobody")) is None
        assert (await roles.standing(CLIENT)).is_superuser is False
        assert await checks.captured() is None
        end_all_sessions(dsn)
        roles._known.clear()
    roles.close()
    made.close()


async def test_a_check_whose_connection_is_ended_under_it_is_tried_again(dsn):
    class Ended(Validation):
        times = 0

        def _examine(self, inside, request, client):
            Ended.times += 1
            if Ended.times == 1:
                end_all_sessions(dsn)
            return super()._examine(inside, request, client)

    made = Ended(Postgres(dsn=dsn, superusers_subscribe=True), statement_timeout_ms=60_000)
    assert (await Checks(made).check(SubscribeRequest("SELECT id FROM orders"), client())).tables == 1
    assert Ended.times == 2
    made.close()
