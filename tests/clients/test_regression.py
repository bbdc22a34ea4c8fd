"""PostgreSQL's own regression SQL through psql gives the same output through the gateway as directly (issue 5)."""

import difflib

import psycopg
import pytest
from psycopg import sql

from tests.clients.regression import regression_files, schedule, transcript

# Ends by a query that should find nothing but finds OIDs in a server that is newer than the file.
SHOWS_OIDS = {"rules"}
NAMED = ("boolean", "int4", "text", "join", "aggregates", "window", "copy2", "prepare", "transactions", "portals")


@pytest.fixture(scope="module")
def transcripts(doors, clients_server, tmp_path_factory):
    """By each door, what psql printed for each file of the schedule, run in one fresh database."""
    files, folder = regression_files(), tmp_path_factory.mktemp("regression")

    def program(door):
        return {name: transcript(door, files, name, folder) for name in schedule(files)}

    direct = doors.alone(doors.direct, program)
    clients_server.drop_database(doors.direct.database)
    _drop_left_roles(clients_server)
    proxied = doors.alone(doors.proxied, program)
    clients_server.drop_database(doors.direct.database)
    _drop_left_roles(clients_server)
    return direct, proxied


def _drop_left_roles(server):
    """Some files leave roles behind where a server is newer than they are."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for [name] in connection.execute(r"SELECT rolname FROM pg_roles WHERE rolname LIKE 'regress\_%'").fetchall():
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


@pytest.mark.parametrize("name", NAMED)
def test_a_file_reads_the_same(transcripts, name):
    direct, proxied = transcripts
    assert direct[name].count("\n") > 100
    assert proxied[name] == direct[name], _difference(direct[name], proxied[name])


def test_every_other_file_reads_the_same_too(transcripts):
    direct, proxied = transcripts
    assert len(direct) > 180
    differing = [name for name in direct if direct[name] != proxied[name] and name not in SHOWS_OIDS]
    assert not differing, "\n".join(f"{name}:\n{_difference(direct[name], proxied[name])}" for name in differing)


def _difference(direct, proxied):
    lines = difflib.unified_diff(direct.splitlines(), proxied.splitlines(), "direct", "proxied", lineterm="", n=2)
    return "\n".join(line for line, _ in zip(lines, range(60), strict=False))
