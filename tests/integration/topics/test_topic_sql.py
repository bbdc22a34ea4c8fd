"""Topic SQL on the PG port: in the client's own transaction, with tags and errors as PostgreSQL would give them."""

import secrets
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from services.capture.outbound import watch
from tests.fixtures.forwarder import forwarder

# Parse/Bind/Describe/Execute by libpq's extended protocol, a prepared statement, and a simple Query.
PROTOCOLS = {"extended": {}, "prepared": {"prepare": True}, "simple": {}}


class Database:
    """Beside the client: a superuser's own connection."""

    def __init__(self, dsn: str, port: int) -> None:
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")
        self._connection = psycopg.connect(dsn, autocommit=True)
        watch.install(self._connection)
        self.sql("CREATE SCHEMA app")
        self.sql("CREATE TABLE app.orders (id int PRIMARY KEY, note text)")

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        found = self._connection.execute(statement, values or None)
        return found.fetchall() if found.description else []

    def close(self) -> None:
        self._connection.close()


# Whole reads, and pieces that cut every message.
@pytest.fixture(scope="module", params=[65_536, 3])
def stack(request, postgres_server) -> Iterator[Database]:
    name = f"topic_sql_{secrets.token_hex(5)}"
    dsn = postgres_server.create_database(name)
    with forwarder(postgres_server.port, piece=request.param) as port:
        made = Database(dsn, port)
        yield made
        made.close()
    postgres_server.drop_database(name)


@pytest.fixture
def client(stack) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(stack.dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture(params=PROTOCOLS)
def run(request, client):
    """Run a statement by one of the protocols; its cursor."""

    def run(statement: str) -> psycopg.Cursor[Any]:
        if request.param == "simple":
            return psycopg.ClientCursor(client).execute(statement)
        return client.execute(statement, **PROTOCOLS[request.param])

    return run


def name() -> str:
    return f"app.t_{secrets.token_hex(4)}"


def test_k7_k8_k13_a_topic_is_created_altered_and_dropped(run, stack) -> None:
    """Tags of the statements, in each protocol; K1 shows the result to any SELECT, WHERE and joins included."""
    topic = name()
    assert run(f"CREATE TOPIC {topic} PARTITIONS 4;").statusmessage == "CREATE TOPIC"
    added = run(f"ALTER TOPIC {topic} ADD SOURCE app.orders ON INSERT WHERE (note <> 'x') WITH (payload = 'full')")
    assert added.statusmessage == "ALTER TOPIC" and added.description is None
    run(f"/* a */ alter topic {topic} set alias {topic}_alias")
    run(f"ALTER TOPIC {topic} SET RETENTION WITH (retention_seconds = 60, retention_max_bytes = NULL)")
    shown = stack.sql(
        "SELECT t.alias, t.partitions, t.retention_seconds, t.retention_max_bytes, r ->> 'filter_expr', "
        "r ->> 'payload_mode' FROM system.topics t, json_array_elements(t.routes::json) r WHERE t.name = %s",
        topic,
    )
    assert shown == [(f"{topic}_alias", 4, 60, None, "(note <> 'x')", "Full")]
    assert topic in [row[1] for row in run("SHOW TOPICS").fetchall()]
    assert run(f"ALTER TOPIC {topic}_alias DROP SOURCE orders").statusmessage == "ALTER TOPIC"
    assert run(f"CLEAR TOPIC {topic}").statusmessage == "CLEAR TOPIC"
    assert run(f"DROP TOPIC {topic}").statusmessage == "DROP TOPIC"
    assert run(f"DROP TOPIC IF EXISTS {topic}").statusmessage == "DROP TOPIC"
    assert run("SELECT 1").statusmessage == "SELECT 1"


@pytest.mark.parametrize(
    ("statement", "sqlstate", "words", "at"),
    [
        ("CREATE TOPIC {} PARTITIONS none", "42601", "Invalid partition count 'none'. Must be a number", "none"),
        ("ALTER TOPIC {} ADD SOURCE app.nope ON INSERT", "42704", "Topic '{}' does not exist", "{}"),
        ("CREATE TOPIC nowhere.t", "3F000", "Namespace 'nowhere' does not exist", "nowhere"),
    ],
)
def test_k12_errors_are_postgresqls_and_point_at_the_word(run, statement, sqlstate, words, at) -> None:
    topic = name()
    with pytest.raises(psycopg.Error) as refused:
        run(statement.format(topic))
    found = refused.value.diag
    place = str(statement.format(topic).index(at.format(topic)) + 1)
    assert (found.sqlstate, found.message_primary, found.statement_position) == (sqlstate, words.format(topic), place)
    assert found.context is None and found.column_name is None
    assert run("SELECT 1").fetchone() == (1,)


def test_what_the_gateway_carries_out_is_held_in_a_query_and_refused_under_a_name(client) -> None:
    """Whatever pieces it comes in; what stands behind it in the same write comes after it."""
    assert psycopg.ClientCursor(client).execute("CONSUME FROM app.t").fetchone() == ("held",)
    assert client.pgconn.exec_params(b"ACK app.t GROUP 'g' UPTO OFFSET 1", []).get_value(0, 0) == b"held"
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="cannot be prepared under a name") as refused:
        client.execute("CONSUME FROM app.t", prepare=True)
    assert refused.value.diag.statement_position == "1" and "simple query" in (refused.value.diag.message_hint or "")
    with pytest.raises(psycopg.Error, match="nor stand behind others in a batch"), client.pipeline():
        client.execute("SELECT 1")
        client.execute("CONSUME FROM app.t")
    assert client.execute("SELECT 2").fetchone() == (2,)


def test_a_filter_is_checked_by_postgresql_at_its_place(run) -> None:
    topic = name()
    run(f"CREATE TOPIC {topic}")
    statement = f"ALTER TOPIC {topic} ADD SOURCE app.orders ON INSERT WHERE (nope = 1)"
    with pytest.raises(psycopg.errors.UndefinedColumn) as refused:
        run(statement)
    assert refused.value.diag.statement_position == str(statement.index("(nope") + 1)


def test_a_create_topic_belongs_to_its_transaction(run, client, stack) -> None:
    topic = name()
    with pytest.raises(ZeroDivisionError), client.transaction():
        run(f"CREATE TOPIC {topic}")
        raise ZeroDivisionError
    assert stack.sql("SELECT count(*) FROM system.topics WHERE name = %s", topic) == [(0,)]
    with client.transaction():
        run(f"CREATE TOPIC {topic}")
        assert stack.sql("SELECT count(*) FROM system.topics WHERE name = %s", topic) == [(0,)]
    assert stack.sql("SELECT count(*) FROM system.topics WHERE name = %s", topic) == [(1,)]
    with pytest.raises(psycopg.Error), client.transaction():
        run("CREATE TOPIC oops")


def test_a_failed_transaction_stays_failed(run, client) -> None:
    client.autocommit = False
    with pytest.raises(psycopg.Error):
        run("CREATE TOPIC oops")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        run(f"CREATE TOPIC {name()}")
    client.rollback()


@pytest.mark.parametrize("hostile", ["t'); DROP TABLE orders; --", "t\\'", "$$", "tä𝄞", 'a"b', "%s", "E'\\u0027"])
def test_names_are_never_sql(run, stack, hostile) -> None:
    quoted = '"' + hostile.replace('"', '""') + secrets.token_hex(3) + '"'
    run(f"CREATE TOPIC app.{quoted}")
    expected = "app." + quoted[1:-1].replace('""', '"')
    assert stack.sql("SELECT count(*) FROM system.topics WHERE name = %s", expected) == [(1,)]
    assert stack.sql("SELECT count(*) FROM app.orders") == [(0,)]


def test_k18_a_user_defines_nothing(stack) -> None:
    role = f"r_{secrets.token_hex(4)}"
    stack.sql(f"CREATE ROLE {role} LOGIN PASSWORD 'p'")
    with psycopg.connect(make_conninfo(stack.dsn, user=role, password="p"), autocommit=True) as user:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="CREATE TOPIC requires DBA or System role"):
            user.execute(f"CREATE TOPIC {name()}")
        assert user.execute("SELECT count(*) >= 0 FROM system.topics").fetchone() == (True,)
    stack.sql(f"DROP ROLE {role}")


def test_a_database_without_topics_says_so(postgres_server, database) -> None:
    with forwarder(postgres_server.port) as port:
        dsn = make_conninfo(database, host="127.0.0.1", port=port, sslmode="disable", gssencmode="disable")
        with psycopg.connect(dsn, autocommit=True) as client:
            with pytest.raises(psycopg.Error, match="topics are not installed in this database"):
                client.execute("CREATE TOPIC app.t")
            assert client.execute("SELECT 1").fetchone() == (1,)
