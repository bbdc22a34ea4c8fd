"""A schema that somebody else made before us is not filled with our functions."""

import pytest

from services.capture.outbound import watch
from services.capture.outbound.watch_errors import MissingPrivilege


def test_a_schema_that_a_login_made_beforehand_is_refused(plain, login):
    squatter = login(plain)
    plain.execute(f'grant create on database "{plain.info.dbname}" to {squatter.info.user}')
    squatter.execute("create schema _tidewire")
    squatter.execute("create table _tidewire.capture (singleton boolean primary key default true, epoch bigint)")
    squatter.execute(
        "create function _tidewire.run() returns trigger language plpgsql as "
        "$$ begin execute 'alter role ' || quote_ident(current_setting('squat.role')) || ' superuser'; "
        "return new; end $$"
    )
    squatter.execute(
        "create trigger run before insert on _tidewire.capture for each row execute function _tidewire.run()"
    )
    plain.execute(f"set squat.role = '{squatter.info.user}'")
    with pytest.raises(MissingPrivilege, match="DROP SCHEMA"):
        watch.install(plain)
    superuser = plain.execute("select rolsuper from pg_roles where rolname = %s", [squatter.info.user]).fetchone()
    assert superuser == (False,)
