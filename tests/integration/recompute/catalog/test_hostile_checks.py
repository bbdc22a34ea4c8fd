"""A schema owner's code that runs while his query is described: what it raises is his own refusal alone."""

import psycopg
import pytest

from services.recompute.outbound.postgres.subscriber import unreachable
from services.sqlguard.refusal import Refused

OUTAGES = ["08006", "53000", "53300", "57P01", "57P03", "58030"]
CHAIN = """
CREATE SCHEMA vile AUTHORIZATION mallory;
SET ROLE mallory;
CREATE DOMAIN vile.inner_one AS int;
CREATE DOMAIN vile.outer_one AS int CHECK ((VALUE::vile.inner_one) IS NOT NULL);
CREATE TYPE vile.holder AS (a vile.outer_one);
CREATE TABLE vile.kept (a int PRIMARY KEY);
RESET ROLE;
"""
RAISES = """
SET ROLE mallory;
CREATE FUNCTION vile.bad(int) RETURNS boolean LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'permission denied' USING ERRCODE = '53000'; END $$;
ALTER DOMAIN vile.inner_one ADD CHECK (vile.bad(VALUE)) NOT VALID;
RESET ROLE;
"""


@pytest.fixture
def vile(admin: psycopg.Connection):
    admin.execute(CHAIN)
    yield admin
    admin.execute("RESET ROLE; DROP SCHEMA vile CASCADE")


def test_a_check_behind_the_check_of_another_domain_is_found_before_it_runs(describe, vile):
    asked = {"filter": "'(1)'::vile.holder IS NOT NULL"}
    assert describe("SELECT * FROM vile.kept", role="mallory", **asked).columns
    vile.execute(RAISES)
    with pytest.raises(Refused, match="checks its values by a function of mallory"):
        describe("SELECT * FROM vile.kept", role="postgres", **asked)
    # To himself his own code may say what it likes.
    with pytest.raises(Refused, match="permission denied"):
        describe("SELECT * FROM vile.kept", role="mallory", **asked)


@pytest.mark.parametrize("sqlstate", OUTAGES)
def test_an_error_that_code_raises_is_no_outage_whatever_its_sqlstate(admin: psycopg.Connection, sqlstate):
    with pytest.raises(psycopg.Error) as raised:
        admin.execute(f"DO $$ BEGIN RAISE EXCEPTION 'permission denied' USING ERRCODE = '{sqlstate}'; END $$")
    assert raised.value.sqlstate == sqlstate and not unreachable(raised.value)


def test_a_connection_that_the_server_ended_is_an_outage(shop: str, admin: psycopg.Connection):
    with psycopg.connect(shop, autocommit=True) as lost:
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", [lost.info.backend_pid])
        for _ in range(2):  # by the server's last words, and by libpq's
            with pytest.raises(psycopg.Error) as raised:
                lost.execute("SELECT")
            assert unreachable(raised.value)
