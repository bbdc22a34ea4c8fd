"""The rights that a tree asks for are those that PostgreSQL itself would check, whoever printed the tree."""

import psycopg
import pytest

from services.recompute.outbound.postgres.catalog_rights import refuse_missing_rights
from services.sqlguard.refusal import Refused
from tests.security.entrance.conftest import UNLESS_THERE, Lair

RIGHTS = (
    UNLESS_THERE.format("reader")
    + UNLESS_THERE.format("clerk")
    + """
CREATE TABLE wide (a int, b int, c int);
GRANT SELECT (a, b) ON wide TO reader;
CREATE TABLE narrow (a int);
GRANT SELECT ON narrow TO reader;
CREATE VIEW lent AS SELECT a, c FROM wide;
GRANT SELECT ON lent TO reader;
CREATE VIEW own_eyes WITH (security_invoker = 'T') AS SELECT a, c FROM wide;
GRANT SELECT ON own_eyes TO reader;
CREATE TABLE stranger (a int);
CREATE VIEW broken AS SELECT a FROM stranger;
GRANT SELECT ON broken TO reader;
ALTER VIEW broken OWNER TO clerk;
"""
)
QUERIES = [
    "SELECT a FROM wide",
    "SELECT a, b FROM wide",
    "SELECT c FROM wide",
    "SELECT * FROM wide",
    "SELECT wide FROM wide",
    "SELECT count(*) FROM wide",
    "SELECT count(*) FROM stranger",
    "SELECT a FROM wide WHERE c > 1",
    "SELECT a FROM wide ORDER BY c",
    "SELECT n.a FROM narrow n JOIN wide w USING (a)",
    "SELECT n.a FROM narrow n JOIN wide w ON w.c = n.a",
    "SELECT * FROM lent",
    "SELECT a FROM own_eyes",
    "SELECT c FROM own_eyes",
    "SELECT * FROM broken",
    "SELECT (SELECT max(c) FROM wide)",
    "WITH w AS (SELECT a FROM stranger) SELECT 1 FROM w",
    "SELECT a FROM narrow UNION SELECT c FROM wide",
    "SELECT a FROM narrow WHERE EXISTS (SELECT FROM stranger)",
    "SELECT ctid FROM wide",
    "SELECT ctid FROM narrow",
    "SELECT text FROM secret",
]


@pytest.fixture(scope="package")
def reading(lair_dsn: str) -> str:
    with psycopg.connect(lair_dsn, autocommit=True) as admin:
        admin.execute(RIGHTS)
    return lair_dsn


@pytest.mark.parametrize("sql", QUERIES)
def test_the_catalog_says_of_rights_what_postgresql_says(lair: Lair, reading: str, sql: str):
    with lair.inside("reader") as inside:
        inside.set({"search_path": "public"})
        parsed = inside.parse(sql)
        (role_oid,) = inside.service.execute("SELECT oid FROM pg_roles WHERE rolname = 'reader'").fetchone()
        try:
            refuse_missing_rights(inside.service, parsed.rewritten, role_oid)
            found = True
        except Refused as refusal:
            assert refusal.sqlstate == "42501"
            found = False
        try:
            inside.explain(sql, ())
            allowed = True
        except psycopg.errors.InsufficientPrivilege:
            allowed = False
    assert found == allowed
