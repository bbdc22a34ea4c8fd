"""Nobody's code runs on our connections but that of owners who are trusted."""

from collections.abc import Iterator

import psycopg
import pytest

from services.chassis.parsed import keep_out_of_the_server_log, set_local
from services.chassis.refusal import Refused
from services.chassis.trust import examine

EVIL = """
DO $$ BEGIN CREATE ROLE mallory; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE alice; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT CREATE, USAGE ON SCHEMA public TO mallory, alice;
CREATE SCHEMA lair AUTHORIZATION mallory;
CREATE TABLE item (id int PRIMARY KEY);
CREATE FUNCTION plain(int) RETURNS int IMMUTABLE LANGUAGE sql SET search_path = pg_catalog AS 'SELECT $1';
CREATE FUNCTION swayed(int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN helped($1); END';
CREATE FUNCTION bound(i int) RETURNS int IMMUTABLE LANGUAGE sql RETURN i + 1;
SET ROLE mallory;
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
def evil(postgres_server) -> Iterator[psycopg.Connection]:
    dsn = postgres_server.create_database("trust")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(EVIL)
        yield connection
    postgres_server.drop_database("trust")


def examined(connection: psycopg.Connection, sql: str, *, path: str = "public", trusted: tuple[str, ...] = ()) -> None:
    connection.execute("BEGIN READ ONLY")
    try:
        set_local(connection, {"role": "mallory", "search_path": path})
        examine(connection, sql, trusted_owners=trusted)
        kept = connection.execute("SELECT current_user, pg_catalog.current_setting('search_path')").fetchone()
        assert kept == ("mallory", path)
    finally:
        connection.execute("ROLLBACK")
        # Nothing of it was run.
        assert connection.execute("SELECT current_setting('lair.was', true)").fetchone()[0] in (None, "")


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
def test_a_literal_whose_type_checks_it_by_untrusted_code_is_not_even_read(evil, sql):
    with pytest.raises(Refused, match=r"domain lair\.odd checks its values by a function of mallory"):
        examined(evil, sql)


def test_other_statements_are_read_though_there_is_such_a_type(evil):
    examined(evil, "SELECT 'pairing', id FROM item")


def test_a_name_cannot_hide_what_stands_behind_it(evil):
    strange = "x{}()\\ :funcid 1 " * 3
    with pytest.raises(Refused, match="owned by mallory"):
        examined(evil, f'SELECT lair.evil(1) AS "{strange[:60]}", id AS "{"}" * 60}" FROM item AS "{"{" * 63}"')


def test_trees_are_told_to_us_alone_if_the_server_lets_us(postgres_server, evil):
    assert keep_out_of_the_server_log(evil) is True
    evil.execute("RESET log_min_messages")
    evil.execute("SET ROLE mallory")
    assert keep_out_of_the_server_log(evil) is False
    evil.execute("RESET ROLE")
