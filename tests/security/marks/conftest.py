"""Watched databases on each supported version, and logins that own nothing of ours."""

import itertools
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import conninfo, sql

from tests.integration.watch.conftest import Connect, connect, new_database, plain, server, watched

__all__ = ["connect", "new_database", "plain", "server", "watched"]

_numbers = itertools.count()
NewLogin = Callable[[psycopg.Connection], psycopg.Connection]


@pytest.fixture
def login(connect: Connect) -> Iterator[NewLogin]:
    """Makes a login without any grant and connects as it."""
    made: list[tuple[psycopg.Connection, str]] = []

    def login(database: psycopg.Connection) -> psycopg.Connection:
        name = f"plain_{database.info.dbname}_{next(_numbers)}"
        database.execute(sql.SQL("create role {} login password 'x'").format(sql.Identifier(name)))
        made.append((database, name))
        return connect(conninfo.make_conninfo(database.info.dsn, user=name, password="x"))

    yield login
    for database, name in made:
        database.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = %s", [name])
        database.execute(sql.SQL("drop owned by {0} cascade").format(sql.Identifier(name)))
        database.execute(sql.SQL("drop role {0}").format(sql.Identifier(name)))


@pytest.fixture
def schema_owner(login: NewLogin) -> NewLogin:
    """Makes a login that owns a schema `own`, which leads its search path."""

    def schema_owner(database: psycopg.Connection) -> psycopg.Connection:
        owner = login(database)
        database.execute(sql.SQL("create schema own authorization {}").format(sql.Identifier(owner.info.user)))
        owner.execute("set search_path = own, public")
        return owner

    return schema_owner
