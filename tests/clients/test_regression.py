"""PostgreSQL's own regression SQL through psql gives the same output through the gateway as directly (issue 5)."""

import difflib

import psycopg
import pytest
from psycopg import sql

from tests.clients.regression import regression_files, schedule, transcript

# Ends by a query that should find nothing but finds OIDs in a server that is newer than the file.
SHOWS_OIDS = {"rules"}
NAMED = ("boolean", "int4", "text", "join", "aggregates", "window", "copy2", "prepare", "transactions", "portals")
# What those and the others need is made by the first of them; after them what is near to the wire and to types.
CHOSEN = (
    "test_setup", *NAMED, "char", "varchar", "int8", "float8", "numeric", "bit", "uuid", "enum", "strings", "date",
    "time", "timestamptz", "interval", "inet", "json", "jsonb", "arrays", "rangetypes", "xml", "copy", "copyselect",
    "copydml", "prepared_xacts", "portals_p2", "temp", "namespace", "plancache", "limit", "plpgsql", "sequence",
    "polymorphism", "rowtypes", "returning", "largeobject", "with", "async", "guc", "psql", "psql_crosstab", "errors",
    "select_into", "subselect", "union", "case", "insert_conflict", "updatable_views", "merge", "lock",
    "advisory_lock", "privileges", "rowsecurity", "tsearch", "xmlmap", "event_trigger", "explain",
)  # fmt: skip


def both(doors, server, folder, names):
    """By each door, what psql printed for each of the files, run one after another in one fresh database."""
    files = regression_files()

    def program(door):
        return {name: transcript(door, files, name, folder) for name in names or schedule(files)}

    said = []
    for door in (doors.direct, doors.proxied):
        said.append(doors.alone(door, program))
        server.drop_database(door.database)
        _drop_left_roles(server)
    return said


@pytest.fixture(scope="module")
def transcripts(doors, clients_server, tmp_path_factory):
    return both(doors, clients_server, tmp_path_factory.mktemp("regression"), CHOSEN)


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


def test_other_files_read_the_same_too(transcripts):
    _assert_same(*transcripts)


@pytest.mark.chaos
def test_the_whole_schedule_reads_the_same(doors, clients_server, tmp_path):
    direct, proxied = both(doors, clients_server, tmp_path, ())
    assert len(direct) > 180
    _assert_same(direct, proxied)


def _assert_same(direct, proxied):
    differing = [name for name in direct if direct[name] != proxied[name] and name not in SHOWS_OIDS]
    assert not differing, "\n".join(f"{name}:\n{_difference(direct[name], proxied[name])}" for name in differing)


def _difference(direct, proxied):
    lines = difflib.unified_diff(direct.splitlines(), proxied.splitlines(), "direct", "proxied", lineterm="", n=2)
    return "\n".join(line for line, _ in zip(lines, range(60), strict=False))
