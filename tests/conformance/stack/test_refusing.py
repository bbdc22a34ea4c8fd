"""What is refused, in which words, and what nobody is shown."""

import pytest

from proto.pgwire.live import (
    Data,
    Refused,
    Update,
)
from tests.conformance.stack.sandbox import Subscribed, refused


def test_v36_v38_v39_errors_in_the_documents_words_and_nothing_after_them(sandbox, role):
    table = sandbox.table("id int PRIMARY KEY")
    with sandbox.client(user=role, password=role) as client:
        told = [
            refused(client, sql) for sql in (f"SELECT * FROM {table}", "SELECT * FROM gone", f"DELETE FROM {table}")
        ]
        assert [message.message for message in told] == [
            f"Execution error: permission denied for table '{table}'",
            "Execution error: table 'gone' does not exist",
            "Only SELECT queries can be subscribed to",
        ]
        assert {message.subscription.version for message in told} == {4} and len({m.subscription for m in told}) == 3
        sandbox.write(f"GRANT SELECT ON {table} TO {role}")
        held = Subscribed(client, f"SELECT * FROM {table}")
        sandbox.write(f"INSERT INTO {table} VALUES (1)")
        held.until([(b"1",)])
        sandbox.write(f"DROP TABLE {table}")
        assert client.live() == Refused(held.id, f"Subscription invalidated: table '{table}' was dropped")


def test_v39_v54_who_loses_the_right_to_read_is_told_so_and_nothing_more(sandbox, role):
    """Decision 21."""
    table = sandbox.table("id int PRIMARY KEY")
    sandbox.write(f"GRANT SELECT ON {table} TO {role}")
    with sandbox.client(user=role, password=role) as client:
        held = Subscribed(client, f"SELECT * FROM {table}")
        sandbox.write(f"REVOKE SELECT ON {table} FROM {role}")
        message = client.live(90)
        assert isinstance(message, Refused) and message.subscription == held.id
        assert "permission denied" in message.message
        sandbox.write(f"INSERT INTO {table} VALUES (1)")
        assert isinstance(refused(client, f"SELECT * FROM {table}"), Refused)


def test_v54_nobody_sees_rows_or_columns_that_postgres_hides_from_him(sandbox, role):
    """Decision 20: not a row, inserted, updated or deleted, that his policies hide; not a column without a grant."""
    table = sandbox.table("id int PRIMARY KEY, owner text, secret text")
    sandbox.write(
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY own ON {table} USING (owner = current_user)",
        f"GRANT SELECT (id, owner) ON {table} TO {role}",
        f"INSERT INTO {table} VALUES (1, '{role}', 's'), (2, 'somebody else', 's')",
    )
    mine = role.encode()
    with sandbox.client(user=role, password=role) as client:
        for sql in (f"SELECT * FROM {table}", f"SELECT id FROM {table} WHERE secret = 's'"):
            assert refused(client, sql).message == f"Execution error: permission denied for table '{table}'"
        held = Subscribed(client, f"SELECT id, owner FROM {table}")
        assert held.rows == [(b"1", mine)]
        sandbox.write(f"INSERT INTO {table} VALUES (3, 'somebody else', 's')")
        sandbox.write(f"DELETE FROM {table} WHERE id = 2")
        sandbox.write(f"UPDATE {table} SET owner = '{role}' WHERE id = 3")
        assert held.next() == Data(held.id, Update.INSERT, ((b"3", mine),))
        sandbox.write(f"UPDATE {table} SET owner = 'somebody else' WHERE id = 1")
        assert held.next() == Data(held.id, Update.DELETE, ((b"1", mine),))


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {0} VALUES (9, 9)",
        "UPDATE {0} SET n = 9",
        "DELETE FROM {0}",
        "TRUNCATE {0}",
        "DROP TABLE {0}",
        "WITH w AS (UPDATE {0} SET n = 9 RETURNING *) SELECT * FROM w",
        "SELECT * INTO {0}_copy FROM {0}",
        "SELECT * FROM {0} FOR UPDATE",
        "CREATE TABLE {0}_copy AS SELECT * FROM {0}",
        "EXPLAIN ANALYZE DELETE FROM {0}",
        "DO $$BEGIN DELETE FROM {0}; END$$",
        "MERGE INTO {0} USING {0} s ON false WHEN NOT MATCHED THEN INSERT VALUES (9, 9)",
        "SELECT setval('{0}_numbers', 9)",
        "SELECT 1; DELETE FROM {0}",
    ],
)
def test_v41_what_is_no_select_is_never_executed(sandbox, numbered, statement):
    before = sandbox.read(f"SELECT * FROM {numbered}")
    with sandbox.client() as client:
        assert isinstance(refused(client, statement.format(numbered)), Refused)
    assert sandbox.read(f"SELECT * FROM {numbered}") == before
    assert sandbox.read(f"SELECT last_value, is_called FROM {numbered}_numbers") == [(b"1", b"False")]
    assert sandbox.read(f"SELECT to_regclass('{numbered}_copy')") == [(None,)]
