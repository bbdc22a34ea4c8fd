"""CONSUME, ACK and RESET CONSUMER GROUP on the PG port: real rows, outside of the client's transaction."""

import os
import secrets
import socket
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import pq
from psycopg.conninfo import make_conninfo

from tests.conformance.kalamdb import topic_vector
from tests.fixtures.waiting import wait_until
from tests.integration.topics.conftest import Consumer

COLUMNS = ["topic_id", "partition_id", "offset", "key", "payload", "timestamp_ms", "user_id", "op"]
READY = b"Z\0\0\0\x05I"
Connection = psycopg.Connection[Any]


def address(stack, **parts: str) -> str:
    return make_conninfo(
        stack.captured.dsn,
        host="127.0.0.1",
        port=stack.gateways[0].port,
        sslmode="disable",
        gssencmode="disable",
        **parts,
    )


@pytest.fixture
def client(stack) -> Iterator[Connection]:
    with psycopg.connect(address(stack), autocommit=True) as connection:
        yield connection


@pytest.fixture
def group() -> str:
    return f"g_{secrets.token_hex(4)}"


def offsets(client: Connection, text: str) -> list[int]:
    return [row[2] for row in psycopg.ClientCursor(client).execute(text.encode()).fetchall()]


def acked(stack, topic, group: str) -> list[int]:
    question = "SELECT last_acked_offset FROM system.topic_offsets WHERE topic_id = %s AND group_id = %s"
    return [row[0] for row in stack.sql(question, topic.name, group)]


def test_k10_k11_consume_ack_and_reset_have_their_rows(client, stack, topic, group) -> None:
    """Vectors k.consume.sqlresult, k.ack.sqlresult; decision 27."""
    topic.write(5)
    found = psycopg.ClientCursor(client).execute(
        f"CONSUME FROM {topic.name} GROUP '{group}' FROM EARLIEST LIMIT 2".encode()
    )
    assert [column.name for column in found.description or ()] == COLUMNS and found.statusmessage == "SELECT 2"
    assert found.fetchall() == [
        (topic.name, 0, number, str(number), b'{"id": %d}' % number, 1_730_000_000_000, "keeper", "insert")
        for number in (0, 1)
    ]
    done = psycopg.ClientCursor(client).execute(f"ACK {topic.name} GROUP '{group}' UPTO OFFSET 3".encode())
    assert [column.name for column in done.description or ()] == ["topic", "group_id", "partition", "committed_offset"]
    assert done.fetchall() == [(topic.name, group, 0, 3)] and acked(stack, topic, group) == [3]
    assert offsets(client, f"CONSUME FROM {topic.name} GROUP '{group}' FROM EARLIEST") == [4]
    reset = psycopg.ClientCursor(client).execute(f"RESET CONSUMER GROUP {group} ON {topic.name} TO 1".encode())
    assert reset.fetchall() == [(topic.name, group, 0, 1)] and acked(stack, topic, group) == [0]
    assert offsets(client, f"CONSUME FROM {topic.name} FROM LATEST") == []


def test_the_extended_protocol_has_the_same_rows_each_time_it_is_sent(client, stack, topic, group) -> None:
    topic.write(4)
    text = f"CONSUME FROM {topic.name} GROUP '{group}' FROM EARLIEST LIMIT 2".encode()
    results = [client.pgconn.exec_params(text, []) for _ in range(3)]
    assert [[int(each.get_value(row, 2) or b"") for row in range(each.ntuples)] for each in results] == [
        [0, 1],
        [2, 3],
        [],
    ]
    assert [results[0].fname(place) for place in range(8)] == [name.encode() for name in COLUMNS]
    assert client.execute("SELECT 1").fetchone() == (1,)


def test_what_is_executed_again_without_being_sent_again_is_refused(client, stack, topic, group) -> None:
    """Else the same rows would be shown again, and an ACK would say that it was done."""
    topic.write(2)
    wire = client.pgconn
    wire.enter_pipeline_mode()
    wire.send_query_params(f"CONSUME FROM {topic.name} FROM EARLIEST".encode(), [])
    wire.send_query_prepared(b"", [])
    wire.pipeline_sync()
    wire.flush()
    first, second = _next(wire), _next(wire)
    client.close()
    assert (first.status, first.ntuples) == (pq.ExecStatus.TUPLES_OK, 2)
    assert (second.status, second.ntuples) == (pq.ExecStatus.FATAL_ERROR, 0)
    assert b"carried out when it is sent" in second.error_message


def _next(wire: pq.abc.PGconn) -> pq.abc.PGresult:
    result = wire.get_result()
    while result is None:
        result = wire.get_result()
    wire.get_result()
    return result


def test_it_takes_no_part_in_the_transaction(client, stack, topic, group) -> None:
    topic.write(3)
    with pytest.raises(ZeroDivisionError), client.transaction():
        assert offsets(client, f"CONSUME FROM {topic.name} GROUP '{group}' FROM EARLIEST") == [0, 1, 2]
        offsets(client, f"ACK {topic.name} GROUP '{group}' UPTO OFFSET 1")
        raise ZeroDivisionError
    assert acked(stack, topic, group) == [1]


def test_in_a_failed_transaction_nothing_is_carried_out(client, stack, topic, group) -> None:
    topic.write(3)
    client.autocommit = False
    with pytest.raises(psycopg.errors.DivisionByZero):
        client.execute("SELECT 1 / 0")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        psycopg.ClientCursor(client).execute(f"ACK {topic.name} GROUP '{group}' UPTO OFFSET 1".encode())
    client.rollback()
    assert acked(stack, topic, group) == []
    assert client.execute("SELECT 1").fetchone() == (1,)


def test_it_waits_for_what_was_sent_before_it_and_what_is_behind_it_waits(client, topic) -> None:
    """Several queries in one write, as a client that does not wait sends them."""
    topic.write(1)
    texts = [b"SELECT pg_sleep(0.3), 'before'", f"CONSUME FROM {topic.name} FROM EARLIEST".encode(), b"SELECT 'behind'"]
    data = b""
    with socket.socket(fileno=os.dup(client.pgconn.socket)) as raw:
        raw.settimeout(30)
        raw.sendall(b"".join(map(_query, texts)))
        while data.count(READY) < 3:
            data += raw.recv(65_536)
    first, second, third, rest = data.split(READY)
    assert b"before" in first and b"behind" in third and rest == b""
    assert second.count(topic.name.encode()) == 1 and second.endswith(b"SELECT 1\0")


def _query(text: bytes) -> bytes:
    return b"Q" + (len(text) + 5).to_bytes(4) + text + b"\0"


@pytest.mark.parametrize(
    ("text", "sqlstate", "words", "at"),
    [
        ("CONSUME FROM app.missing", "42704", "Topic 'app.missing' does not exist", "app.missing"),
        ("ACK app.missing GROUP 'g' UPTO OFFSET 1", "42704", "Topic 'app.missing' does not exist", "app.missing"),
        ("ACK app.missing GROUP 'g'", "42601", "ACK requires UPTO OFFSET clause", None),
    ],
)
def test_k12_k20_errors_are_postgresqls(client, text, sqlstate, words, at) -> None:
    with pytest.raises(psycopg.Error) as refused:
        psycopg.ClientCursor(client).execute(text.encode())
    found = refused.value.diag
    assert (found.sqlstate, found.message_primary) == (sqlstate, words)
    if at is not None:
        assert found.statement_position == str(text.index(at) + 1)
    assert client.execute("SELECT 1").fetchone() == (1,)


def test_k18_it_is_the_role_of_that_moment_that_counts(client, stack, topic, group) -> None:
    """Vector k.authz: not the login's, which a pooler may share, and not that of a moment before."""
    topic.write(2)
    role, service = stack.role(), stack.role()
    stack.sql(
        "DO $$ BEGIN CREATE ROLE tidewire_service; "
        "EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
    )
    stack.sql(f"GRANT tidewire_service TO {service}")
    consume = f"CONSUME FROM {topic.name} FROM EARLIEST"
    assert offsets(client, consume) == [0, 1]
    client.execute(f"SET ROLE {role}".encode())
    statements = (
        consume,
        f"ACK {topic.name} GROUP '{group}' UPTO OFFSET 1",
        f"CREATE TOPIC {topic.name}_2",
        f"ALTER TOPIC {topic.name} CLEAR RETENTION",
    )
    for statement, words in zip(statements, topic_vector("k.authz")["messages"], strict=True):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match=words):
            offsets(client, statement)
    client.execute(f"SET SESSION AUTHORIZATION {service}".encode())
    wait_until(lambda: offsets(client, consume) == [0, 1], "the service's messages", within_s=10)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="RESET CONSUMER GROUP requires DBA or System role"):
        offsets(client, f"RESET CONSUMER GROUP {group} ON {topic.name} TO 0")
    assert acked(stack, topic, group) == []


def test_a_group_is_one_by_http_and_by_sql(client, stack, consumer, topic) -> None:
    topic.write(4)
    assert offsets(client, f"CONSUME FROM {topic.name} GROUP '{consumer.group}' FROM EARLIEST LIMIT 3") == [0, 1, 2]
    assert consumer.offsets() == [3]
    offsets(client, f"ACK {topic.name} GROUP '{consumer.group}' UPTO OFFSET 3")
    assert consumer.offsets() == [] and Consumer(topic, consumer.caller).offsets() == [0, 1, 2, 3]
