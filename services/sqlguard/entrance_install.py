"""What entrance.sql puts into a database, and the login that it makes."""

import hashlib
import secrets
import time
from enum import Enum
from importlib.resources import files
from typing import Any

import psycopg
from psycopg import sql

from services.chassis import own_schema
from services.chassis.postgres import Postgres, failure

INSTALL_ATTEMPTS = 5
_STAMP = """
SELECT max(obj_description(p.oid, 'pg_proc')) FILTER (WHERE p.proname = 'enter'),
       (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = session_user),
       coalesce(bool_and(has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE'))
                FILTER (WHERE p.proname IN ('admit', 'runner_login')), false)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace AND n.nspname = '_tidewire'
"""
_RUNNER = """
SELECT r.rolname FROM pg_roles r, pg_database d
WHERE d.datname = current_database() AND r.rolname = 'tidewire_runner_' || d.oid
"""

Connection = psycopg.Connection[Any]


class Isolation(Enum):
    """How a subscriber's SQL is kept from becoming more than its role."""

    # Through an entrance that the role owns, on a login without rights.
    ENTRANCE = "entrance"
    # By SET ROLE on the service's own login, where a superuser could not install the entrance. Code that a query
    # calls could set the role back, so roles that may create anything are refused unless the operator allows it.
    SET_ROLE = "set role"


def install(service: Connection) -> Isolation:
    """Install or upgrade the entrance if this role can, and say how queries are isolated."""
    script = (files(__package__) / "entrance.sql").read_text()
    stamp = "Tidewire entrance " + hashlib.sha256(script.encode()).hexdigest()[:16]
    for attempt in range(1, INSTALL_ATTEMPTS + 1):
        is_there = own_schema.exists(service)
        row = service.execute(_STAMP).fetchone()
        assert row is not None
        found, is_superuser, may_admit = row
        if found == stamp or not is_superuser:
            return Isolation.ENTRANCE if found is not None and (may_admit or is_superuser) else Isolation.SET_ROLE
        try:
            with service.transaction():
                service.execute("SET LOCAL lock_timeout = '5s'")
                if not is_there:
                    own_schema.create(service)
                service.execute("SET LOCAL client_min_messages = error")
                service.execute(script.encode())
                service.execute(f"COMMENT ON FUNCTION _tidewire.enter() IS '{stamp}'".encode())
            return Isolation.ENTRANCE
        except psycopg.Error:
            # Another service installs the same at this moment.
            if attempt == INSTALL_ATTEMPTS:
                raise
            time.sleep(0.1 * attempt)
    raise AssertionError("the last attempt returns or raises")


def remove(connection: Connection) -> str:
    """Drop the runner's role, after its schema is gone; return its name, or nothing if there was none."""
    row = connection.execute(_RUNNER).fetchone()
    if row is None:
        return ""
    name = str(row[0])
    connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [name])
    for command in ("DROP OWNED BY {}", "DROP ROLE {}"):
        connection.execute(sql.SQL(command).format(sql.Identifier(name)))
    return name


def login_of(postgres: Postgres, service: psycopg.Connection) -> tuple[str, str]:
    """The runner's name and password, made if there are none."""
    password = secrets.token_urlsafe(32)
    try:
        (name,) = service.execute("SELECT _tidewire.runner_name()").fetchone() or ("",)
        verifier = service.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
        asked = "SELECT login, password FROM _tidewire.runner_login(%s, %s)"
        row = service.execute(asked, [password, verifier]).fetchone()
    except psycopg.Error as error:
        raise failure(postgres, str(error)) from error
    assert row is not None
    return row[0], row[1]
