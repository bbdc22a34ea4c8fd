"""Watched databases, and the owner of a schema in one."""

from tests.security.marks.conftest import connect, login, new_database, plain, schema_owner, server, watched

__all__ = ["connect", "login", "new_database", "plain", "schema_owner", "server", "watched"]
