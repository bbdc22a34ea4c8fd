"""What a plan says beside its rows: keys that are certain, answers that are stable, policies that bind."""

import secrets
from collections.abc import Callable, Iterator

import psycopg
import pytest
from msgspec.structs import replace

from services.chassis.postgres import Postgres
from services.recompute.core.catalog import Described
from services.recompute.core.plan import Plan, Strategy
from services.recompute.core.planning import plan
from services.recompute.outbound.postgres.catalog import CatalogReader
from tests.exact import corpus
from tests.fixtures.postgres import PostgresServer
from tests.oracle.case import Question
from tests.oracle.local import query_for, without_obstacles

MORE = """
CREATE TABLE swapped (k int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, v text);
CREATE TABLE secured (id int PRIMARY KEY, owner name, note text);
ALTER TABLE secured ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON secured USING (owner = current_user);
CREATE ROLE {role};
GRANT SELECT ON secured TO {role};
CREATE VIEW by_owner AS SELECT id, note FROM secured;
GRANT SELECT ON by_owner TO {role};
CREATE AGGREGATE last_of (int) (sfunc = int4larger, stype = int);
CREATE VIEW lasts AS SELECT last_of(x) AS x FROM t;
"""
INVOKERS = ("true", "T", "on", "ON", "yes", "Y", "1", "tRuE", "t")
OWNERS = ("false", "off", "0", "N")

Planned = Callable[..., tuple[Plan, Described]]


@pytest.fixture(scope="module")
def role() -> str:
    return f"reader_{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def dsn(postgres_server: PostgresServer, role: str) -> Iterator[str]:
    name = f"plans_{secrets.token_hex(4)}"
    dsn = postgres_server.create_database(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(corpus.SETUP.encode())
        connection.execute(MORE.format(role=role).encode())
        for number, spelled in enumerate((*INVOKERS, *OWNERS)):
            connection.execute(
                f"CREATE VIEW view_{number} WITH (security_invoker = '{spelled}') AS SELECT id, note FROM secured;"
                f"GRANT SELECT ON view_{number} TO {role}".encode()
            )
    yield dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def planned(dsn: str) -> Iterator[Planned]:
    with CatalogReader(Postgres(dsn=dsn, superusers_subscribe=True)) as reader:

        def one(sql: str, role: str = "postgres") -> tuple[Plan, Described]:
            query = query_for(Question(sql))
            query.role = role
            described = without_obstacles(reader.describe(query))
            return plan(query.template_sql, query.filter, described, query.text_settings), described

        yield one


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT b, s FROM links WHERE a = ANY (ARRAY[1, 2])", ()),
        ("SELECT b, s FROM links WHERE a IN (1, 2) ORDER BY b", ()),
        ("SELECT b, s FROM links WHERE a = ANY (ARRAY[1, 2]) ORDER BY b", ()),
        ("SELECT b, s FROM links WHERE a <> ALL (ARRAY[3]) ORDER BY b", ()),
        ("SELECT b, s FROM some_links ORDER BY b", ()),
        ("SELECT b, s FROM some_links", ()),
        ("SELECT l.b, l.s FROM links l JOIN t ON t.id = l.a WHERE l.a = ANY (ARRAY[1, 2])", ()),
        ("SELECT b, s FROM links WHERE a = 1 ORDER BY b", (0,)),
        ("SELECT a, b, s FROM links WHERE a = ANY (ARRAY[1, 2]) ORDER BY b", (0, 1)),
        ("SELECT k, v FROM swapped", ()),
        ("SELECT k, v FROM swapped ORDER BY k", ()),
    ],
)
def test_a_key_is_called_certain_only_if_it_is(planned: Planned, sql: str, key: tuple[int, ...]) -> None:
    assert planned(sql)[0].key_positions == key


@pytest.mark.parametrize(
    ("sql", "stable"),
    [
        ("SELECT DISTINCT ON (x) x, t FROM t ORDER BY x", False),
        ("SELECT DISTINCT ON (x) x, t FROM t", False),
        ("SELECT DISTINCT ON (x) x, t FROM t ORDER BY x, n", False),
        ("SELECT DISTINCT ON (x) x, id, t FROM t ORDER BY x, id", True),
        ("SELECT DISTINCT ON (x) x, t FROM t ORDER BY x, id", True),
        ("SELECT x, t FROM tops", False),
        ("SELECT last_of(x) FROM t", False),
        ("SELECT x FROM lasts", False),
        ("SELECT count(*), sum(x) FROM t", True),
    ],
)
def test_an_answer_that_depends_on_the_order_of_rows_is_not_stable(planned: Planned, sql: str, stable: bool) -> None:
    assert planned(sql)[0].stable == stable


@pytest.mark.parametrize("name", ["ctid", "xmin", "cmax"])
def test_a_system_column_is_asked_for_again_on_a_timer(planned: Planned, name: str) -> None:
    found = planned(f"SELECT {name}, id FROM t")[0]
    assert (found.strategy, found.on_timer) == (Strategy.SOURCE, True)


@pytest.mark.parametrize("number", range(len(INVOKERS)))
def test_a_view_reads_with_the_rights_of_its_reader_however_that_is_spelled(
    planned: Planned, number: int, role: str
) -> None:
    found = planned(f"SELECT id, note FROM view_{number}", role)[0]
    assert found.row_local is not None and found.row_local.predicate == f"((c1 = '{role}'))"


@pytest.mark.parametrize("number", range(len(INVOKERS), len(INVOKERS) + len(OWNERS)))
def test_a_view_reads_with_the_rights_of_its_owner_otherwise(planned: Planned, number: int, role: str) -> None:
    found = planned(f"SELECT id, note FROM view_{number}", role)[0]
    assert found.row_local is not None and found.row_local.predicate == ""


def test_a_policy_is_the_one_that_postgres_put_in_whatever_the_catalog_was_read_as(planned: Planned, role: str) -> None:
    query = query_for(Question("SELECT id, note FROM secured"))
    right, described = planned("SELECT id, note FROM secured", role)
    table = replace(described.relations["public", "secured"], row_filter="")
    misread = replace(described, relations=dict.fromkeys(described.relations, table))
    found = plan(query.template_sql, "", misread, query.text_settings)
    assert found.row_local == right.row_local
    assert found.row_local is not None and found.row_local.predicate == f"((c1 = '{role}'))"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT max(ts2 - ts) FROM t", "aggregate 2128"),
        ("SELECT coalesce(ts2 - ts, interval '1 day') FROM t", "intervals beside each other"),
        ("SELECT (x IN (SELECT y FROM u)) IS NULL FROM t", "IN (SELECT …) that is not a condition of its own"),
        ("SELECT octet_length(c) FROM t", "function 1375"),
        ("SELECT id FROM t WHERE t LIKE '%a%a%a%a%b'", "a pattern with more than 3 times %"),
        ("SELECT sum(DISTINCT n) FROM t", "DISTINCT numerics of several scales"),
        ("SELECT jsonb_build_object('a', id) FROM t", "function 3273"),
    ],
)
def test_explain_can_say_why_postgres_is_asked(planned: Planned, sql: str, reason: str) -> None:
    found = planned(sql)[0]
    assert (found.strategy, found.why_not["full"]) == (Strategy.SOURCE, reason)


def test_a_query_without_a_tree_is_left_to_postgres(planned: Planned) -> None:
    query = query_for(Question("SELECT id FROM t"))
    bare = replace(planned("SELECT id FROM t")[1], rewritten="")
    assert plan(query.template_sql, "", bare, query.text_settings).strategy is Strategy.SOURCE


def test_named_queries_that_double_at_every_level_are_left_to_postgres(planned: Planned) -> None:
    levels = ", ".join(f"w{n} AS (SELECT a.id FROM w{n - 1} a JOIN w{n - 1} b USING (id))" for n in range(1, 27))
    found = planned(f"WITH w0 AS (SELECT id FROM t), {levels} SELECT id FROM w26")[0]
    assert found.strategy is Strategy.SOURCE
