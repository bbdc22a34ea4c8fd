"""Nobody's code runs on our connections but that of owners who are trusted."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from services.chassis.postgres import Postgres
from services.sqlguard.entrance import Deadlines, entered
from services.sqlguard.refusal import Refused
from services.sqlguard.runners import Runners, Subscriber
from services.sqlguard.trust import examine

EVIL = """
DO $$ BEGIN CREATE ROLE mallory; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE alice; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT CREATE, USAGE ON SCHEMA public TO mallory, alice;
CREATE SCHEMA lair AUTHORIZATION mallory;
CREATE TABLE item (id int PRIMARY KEY);
CREATE FUNCTION plain(int) RETURNS int IMMUTABLE LANGUAGE sql SET search_path = pg_catalog AS 'SELECT $1';
CREATE FUNCTION swayed(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN helped($1); END';
CREATE FUNCTION bound(i int) RETURNS int IMMUTABLE LANGUAGE sql RETURN i + 1;
CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql AS 'select $1 * 2';
CREATE FUNCTION thrice(n int, m int DEFAULT 0) RETURNS int LANGUAGE sql AS $$ SELECT thrice.n + twice(n) + m; $$;
CREATE FUNCTION items() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM item';
CREATE FUNCTION listed(lowest int) RETURNS SETOF int LANGUAGE sql AS 'SELECT id FROM item WHERE id >= lowest';
CREATE FUNCTION written() RETURNS int LANGUAGE sql AS 'INSERT INTO item VALUES (1) RETURNING id';
CREATE SEQUENCE numbers;
CREATE FUNCTION counted() RETURNS bigint LANGUAGE sql AS 'SELECT nextval(''numbers'')';
CREATE FUNCTION hidden() RETURNS bigint LANGUAGE sql AS 'SELECT counted()';
CREATE FUNCTION loops(int) RETURNS int LANGUAGE sql AS 'SELECT $1';
CREATE OR REPLACE FUNCTION loops(int) RETURNS int LANGUAGE sql AS 'SELECT loops($1)';
CREATE FUNCTION two(int) RETURNS int LANGUAGE sql AS 'SELECT 1; SELECT 2';
CREATE FUNCTION procedural() RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN 1; END';
CREATE FUNCTION definer() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';
SET ROLE mallory;
CREATE FUNCTION lair.quiet(int) RETURNS int LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION lair.evil(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
    $$ BEGIN PERFORM set_config('lair.was', 'here', false); SET ROLE NONE; RETURN $1; END $$;
CREATE FUNCTION lair.evil(int, int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT lair.evil($1)';
CREATE FUNCTION lair.truth(int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT lair.evil($1) > 0';
CREATE FUNCTION lair.loud(int) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN SET ROLE NONE; PERFORM set_config('lair.was', 'here', false); RETURN true; END $$;
CREATE FUNCTION lair.truth(int, int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT lair.evil($1) > 0';
CREATE OPERATOR lair.<-> (LEFTARG = int, RIGHTARG = int, FUNCTION = lair.evil);
CREATE OPERATOR lair.= (LEFTARG = int, RIGHTARG = int, FUNCTION = lair.truth);
CREATE AGGREGATE lair.worst(int) (SFUNC = lair.evil, STYPE = int, INITCOND = '0');
CREATE DOMAIN lair.odd AS int CHECK (lair.loud(VALUE));
CREATE TYPE lair.pair AS (a int, b lair.odd);
CREATE TABLE lair.paired (p lair.pair, ps lair.pair[]); CREATE VIEW lair.paired_seen AS SELECT p FROM lair.paired;
CREATE FUNCTION lair.first(lair.pair) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT ($1).a';
CREATE VIEW lair.seen AS SELECT lair.evil(1) AS x;
CREATE VIEW lair.again AS SELECT * FROM lair.seen;
CREATE TABLE lair.indexed (id int); CREATE INDEX ON lair.indexed ((lair.evil(id)));
CREATE TABLE lair.partly (id int); CREATE INDEX ON lair.partly (id) WHERE lair.truth(id);
CREATE TABLE lair.checked (id int CHECK (lair.truth(id)));
CREATE TABLE lair.split (id int) PARTITION BY LIST ((lair.evil(id)));
CREATE TABLE lair.counted (id int, n int); CREATE STATISTICS lair.s ON (lair.evil(id)), n FROM lair.counted;
CREATE TABLE lair.secured (id int); ALTER TABLE lair.secured ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON lair.secured USING (lair.truth(id));
CREATE TABLE lair.root (id int); CREATE TABLE lair.child () INHERITS (lair.root);
CREATE INDEX ON lair.child ((lair.evil(id)));
CREATE TABLE lair.harmless (id int);
RESET ROLE;
"""


@pytest.fixture(scope="module")
def evil(postgres_server) -> Iterator[Runners]:
    dsn = postgres_server.create_database("trust")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(EVIL)
    runners = Runners(Postgres(dsn=dsn, superusers_subscribe=True), application_name="trust")
    yield runners
    runners.close()
    postgres_server.drop_database("trust")


def examined(
    runners: Runners, sql: str, *, path: str = "public", trusted: tuple[str, ...] = (), role: str = "mallory"
) -> None:
    with (
        runners.borrowed(Subscriber(role, role)) as runner,
        entered(runner, role, Deadlines(10_000, 5_000)) as inside,
    ):
        inside.set({"search_path": path})
        try:
            examine(inside, sql, trusted_owners=trusted)
            kept = inside.ask("SELECT current_user::text, current_setting('search_path')", columns=2)
            assert kept == [(role.encode(), path.encode())]
        finally:
            # Nothing of it was run.
            if runner.connection.info.transaction_status == TransactionStatus.INTRANS:
                assert inside.ask("SELECT current_setting('lair.was', true)", columns=1)[0][0] in (None, b"")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT lair.evil(1)",
        "SELECT 1 OPERATOR(lair.<->) 2",
        "SELECT lair.worst(id) FROM public.item",
        "SELECT 1::lair.odd",
        "SELECT ARRAY[1]::lair.odd[]",
        "SELECT row(1, 2)::lair.pair",
        "SELECT * FROM jsonb_to_recordset('[]') AS r(a lair.odd)",
        "SELECT jsonb_populate_record(NULL::lair.pair, '{}')",
        "SELECT * FROM lair.seen",
        "SELECT * FROM lair.again",
        "SELECT * FROM lair.indexed",
        "SELECT * FROM lair.partly",
        "SELECT * FROM lair.checked",
        "SELECT * FROM lair.split",
        "SELECT * FROM lair.counted",
        "SELECT * FROM lair.secured",
        "SELECT * FROM lair.root",
        "SELECT (SELECT max(x) FROM (SELECT lair.evil(2) AS x) y)",
        "WITH w AS (SELECT lair.evil(2) AS x) SELECT * FROM w",
        "SELECT 1 ORDER BY lair.evil(1)",
        "SELECT count(*) FILTER (WHERE lair.truth(1)) FROM item",
        "SELECT sum(id) OVER (PARTITION BY lair.evil(id)) FROM item",
        "SELECT 1 LIMIT lair.evil(1)",
        "SELECT 1 FROM item TABLESAMPLE system (lair.evil(1))",
        "SELECT CASE 1 WHEN 2 THEN lair.evil(3) END",
        "SELECT coalesce(NULL, lair.evil(1))",
        "SELECT ARRAY[lair.evil(1)]",
        "SELECT a FROM ROWS FROM (lair.evil(1), generate_series(1, 2)) AS f(a, b)",
        "SELECT * FROM item a JOIN item b ON lair.truth(a.id)",
        "SELECT id FROM item GROUP BY GROUPING SETS ((id), ()) HAVING lair.truth(1)",
        "VALUES (lair.evil(1))",
    ],
)
def test_code_of_somebody_untrusted_is_found_wherever_it_stands(evil, sql):
    with pytest.raises(Refused, match=r"mallory, who(se functions are| is) not trusted here") as refusal:
        examined(evil, sql)
    assert refusal.value.sqlstate == "42501"


def test_an_operator_in_front_of_postgresql_s_own_is_seen_through(evil):
    with pytest.raises(Refused, match="owned by mallory"):
        examined(evil, "SELECT 1 FROM public.item WHERE id = 1", path="lair, pg_catalog")


def test_the_same_owner_trusted_is_no_obstacle(evil):
    examined(evil, "SELECT lair.evil(1), x FROM lair.again", trusted=("mallory",))


def test_tables_of_anybody_and_functions_of_superusers_are_fine(evil):
    examined(evil, "SELECT plain(id), bound(1), lower('X') FROM lair.harmless")


def test_a_function_that_the_search_path_may_lead_astray_is_refused_where_others_may_place_things(evil):
    examined(evil, "SELECT swayed(1)")
    with pytest.raises(Refused, match="depends on the search_path, which has schema lair"):
        examined(evil, "SELECT public.swayed(1)", path="lair, public")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT domain_in('1', to_regtype('lair.o' || 'dd'), -1)",
        "SELECT record_in('(1,2)', to_regtype('lair.pa' || 'ir'), -1)",
        "SELECT pg_input_is_valid('1', 'lair.o' || 'dd')",
        "SELECT table_to_xml('lair.seen', true, true, '')",
        "SELECT schema_to_xml('lair', true, true, '')",
        "SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, ''b''::tsquery')",
        "SELECT * FROM ts_stat('SELECT ''a''::tsvector')",
        "SELECT plpgsql_validator('lair.evil(int)'::regprocedure)",
    ],
)
def test_functions_that_run_what_a_text_names_are_refused(evil, sql):
    with pytest.raises(Refused, match="has effects"):
        examined(evil, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT '{1}'::lair.odd[]",
        "SELECT '(1,2)'::lair.pair",
        'SELECT \'(1,2)\'::"lair"."pair"',
        "SELECT '(1,2)'::U&\"l\\0061ir\".pair",
        "SELECT * FROM lair.paired WHERE p = '(1,2)'",
        "SELECT * FROM lair.paired_seen WHERE p = '(1,2)'",
        "SELECT lair.first('(1,2)')",
        "SELECT * FROM lair.paired WHERE ps = '{\"(1,2)\"}'",
    ],
)
def test_a_superuser_s_literal_whose_type_checks_it_by_untrusted_code_is_not_even_read(evil, sql):
    with pytest.raises(Refused, match=r"domain lair\.odd checks its values by a function of mallory"):
        examined(evil, sql, role="postgres")


def test_other_statements_are_read_though_there_is_such_a_type(evil):
    examined(evil, "SELECT 'pairing', id FROM item")
    examined(evil, "SELECT 'pairing', id FROM item", role="postgres")


def test_names_that_somebody_gives_to_his_types_keep_nobody_else_from_subscribing(postgres_server, evil):
    with psycopg.connect(postgres_server.dsn_of("trust"), autocommit=True) as mallory:
        mallory.execute(
            "SET ROLE mallory; CREATE FUNCTION pg_temp.f(int) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
        )
        mallory.execute("CREATE DOMAIN pg_temp.dom AS int CHECK (pg_temp.f(VALUE))")
        mallory.execute('CREATE TEMP TABLE "select" (d pg_temp.dom); CREATE TABLE lair.item (d lair.odd)')
        examined(evil, "SELECT id FROM public.item", role="alice")
        mallory.execute("DROP TABLE lair.item")
        examined(evil, "SELECT id FROM public.item", role="postgres")


def test_places_in_a_long_text_are_no_objects(postgres_server, evil):
    """Where a constant stands in the text is a number like an oid."""
    with psycopg.connect(postgres_server.dsn_of("trust"), autocommit=True) as admin:
        (oid,) = admin.execute("SELECT 'lair.evil(int)'::regprocedure::oid::int").fetchone()
    sql = "SELECT id FROM item WHERE id IN (" + ", ".join(["1"] * (oid // 3 + 2000)) + ")"
    assert len(sql) > oid
    examined(evil, sql)


def test_a_name_cannot_hide_what_stands_behind_it(evil):
    strange = "x{}()\\ :funcid 1 " * 3
    with pytest.raises(Refused, match="owned by mallory"):
        examined(evil, f'SELECT lair.evil(1) AS "{strange[:60]}", id AS "{"}" * 60}" FROM item AS "{"{" * 63}"')


def test_trees_are_told_to_us_and_not_to_the_server_s_log(postgres_server, evil):
    examined(evil, "SELECT 'in nobody''s log', id FROM item")
    with evil.borrowed(Subscriber("mallory", "mallory")) as runner:
        assert runner.connection.execute("SHOW log_min_messages").fetchone() == ("fatal",)


@pytest.mark.parametrize("call", ["twice(1)", "thrice(1)", "thrice(m => 2, n => 1)", "items()", "listed(1)"])
def test_a_function_in_sql_that_nobody_declared_is_judged_by_its_body(evil, call):
    examined(evil, f"SELECT {call}", role="postgres")


@pytest.mark.parametrize(
    "call", ["written()", "counted()", "hidden()", "loops(1)", "two(1)", "procedural()", "definer()"]
)
def test_a_function_whose_body_may_have_effects_is_refused_and_told_what_to_declare(evil, call):
    with pytest.raises(Refused, match=r"(has effects|ALTER FUNCTION public\.\w+\(\w*\) STABLE)"):
        examined(evil, f"SELECT {call}", role="postgres")


def test_a_body_of_somebody_untrusted_is_not_read(evil):
    with pytest.raises(Refused, match="owned by mallory"):
        examined(evil, "SELECT lair.quiet(1)")
