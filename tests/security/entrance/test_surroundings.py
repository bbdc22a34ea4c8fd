"""What others put around the entrance: a schema called like ours, locks on what a query reads."""

import secrets
import threading
import time

import psycopg
import pytest

from services.changelog import barrier
from services.chassis.own_schema import SchemaOfStranger
from services.chassis.postgres import Postgres
from services.sqlguard.runners import Runners, Subscriber
from tests.security.entrance.conftest import UNLESS_THERE

SQUATTED = """
CREATE SCHEMA _tidewire;
GRANT USAGE ON SCHEMA _tidewire TO PUBLIC;
CREATE TABLE _tidewire.prey (who text);
GRANT INSERT ON _tidewire.prey TO PUBLIC;
CREATE FUNCTION _tidewire.catch() RETURNS text LANGUAGE sql AS
    'INSERT INTO _tidewire.prey VALUES (current_user) RETURNING who';
CREATE FUNCTION _tidewire.barrier(text) RETURNS pg_lsn LANGUAGE sql AS 'SELECT _tidewire.catch(); SELECT NULL::pg_lsn';
CREATE FUNCTION _tidewire.enter() RETURNS text LANGUAGE sql AS 'SELECT _tidewire.catch()';
COMMENT ON FUNCTION _tidewire.enter() IS 'Tidewire entrance';
CREATE FUNCTION _tidewire.runner_name() RETURNS text LANGUAGE sql AS 'SELECT _tidewire.catch()';
CREATE FUNCTION _tidewire.runner_login(text, text, OUT login text, OUT password text) LANGUAGE sql AS
    'SELECT _tidewire.catch(), NULL::text';
CREATE FUNCTION _tidewire.admit(int, text, text, boolean) RETURNS void LANGUAGE sql AS 'SELECT _tidewire.catch()';
"""


@pytest.fixture
def squatted(server):
    name = f"squat_{secrets.token_hex(4)}"
    dsn = server.create_database(name)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(UNLESS_THERE.format("squatter") + UNLESS_THERE.format("plain_reader"))
        admin.execute(UNLESS_THERE.format("lesser_service LOGIN PASSWORD 'x'"))
        admin.execute(f'GRANT CREATE ON DATABASE "{name}" TO squatter; SET ROLE squatter;')
        admin.execute(SQUATTED)
        admin.execute("RESET ROLE")
        yield dsn, server.dsn_of(name, "lesser_service", "x"), admin
    server.drop_database(name)


@pytest.mark.parametrize("service", [0, 1], ids=["superuser", "lesser service"])
def test_nothing_in_a_schema_of_a_stranger_is_called(squatted, service):
    dsn, admin = squatted[service], squatted[2]
    runners = Runners(Postgres(dsn=dsn), application_name="zoo")
    reader = Subscriber("plain_reader", "plain_reader")
    with pytest.raises(SchemaOfStranger, match="belongs to role 'squatter'"), runners.borrowed(reader):
        pass
    with pytest.raises(SchemaOfStranger), runners.service() as own:
        barrier.emit(own)
    runners.close()
    assert admin.execute("SELECT count(*) FROM _tidewire.prey").fetchone() == (0,)


def test_a_lock_on_what_a_view_reads_holds_up_our_own_connection_for_seconds_only(lair_dsn):
    with psycopg.connect(lair_dsn, autocommit=True) as admin, psycopg.connect(lair_dsn) as locking:
        admin.execute("CREATE TABLE held (id int); CREATE VIEW holding AS SELECT id FROM held")
        locking.execute("LOCK TABLE held IN ACCESS EXCLUSIVE MODE")
        runners = Runners(Postgres(dsn=lair_dsn), application_name="zoo")
        began_s = time.monotonic()
        with runners.service() as own, pytest.raises(psycopg.errors.LockNotAvailable):
            own.execute("SELECT pg_get_viewdef('public.holding'::regclass)")
        assert time.monotonic() - began_s < 15
        runners.close()
        locking.rollback()
        admin.execute("DROP VIEW holding; DROP TABLE held")


def test_a_runner_whose_service_connection_is_gone_is_freed_all_the_same(lair):
    with lair.runners.borrowed(Subscriber("mallory", "mallory")) as runner:
        runner.service.close()
        threading.Timer(0.3, runner.terminate).start()
        with pytest.raises(psycopg.OperationalError):
            runner.connection.execute("SELECT pg_sleep(60)")
