"""A poison query hurts its owner alone: during and after each of the corpus a neighbour's changes come within 5 s."""

import time

import pytest

from proto.pgwire.live import Ack, Data, Refused
from tests.security.poison.corpus import CORPUS

WITHIN_S = 5.0
# Poisons that take longer are only watched for so long.
WATCHED_S = 4.0
# The first attempt, the one alone, and PostgreSQL's own.
LEFT_WITHIN_S = 40.0


def settled(connection, until_s):
    """Whether the poison was answered or refused by now."""
    message = connection.next_message(max(0.01, min(0.2, until_s - time.monotonic())))
    return isinstance(message, Data | Refused)


@pytest.mark.parametrize("sql", CORPUS.values(), ids=CORPUS.keys())
def test_a_poison_query_hurts_its_owner_alone(stack, neighbour, sql):
    pids = stack.pids()
    neighbour.change_s(WITHIN_S)
    with stack.hostile() as connection:
        until_s = time.monotonic() + WATCHED_S
        connection.subscribe(sql)
        is_settled = False
        while not is_settled and time.monotonic() < until_s:
            neighbour.change_s(WITHIN_S)
            is_settled = settled(connection, until_s)
        neighbour.change_s(WITHIN_S)
    neighbour.change_s(WITHIN_S)
    assert stack.ended() == []
    assert stack.pids() == pids


def test_marks_of_anybody_are_no_marks(stack, neighbour):
    pids = stack.pids()
    with stack.hostile() as connection:
        for mark in (
            "x",
            "{",
            "[]",
            '{"tag": 7}',
            '{"tag": "DROP TABLE", "objects": [{"oid": "many"}]}',
            "",
            "[" * 5000,
        ):
            connection.query(f"SELECT pg_logical_emit_message(true, 'tidewire.ddl', '{mark}')")
            neighbour.change_s(WITHIN_S)
    assert stack.ended() == []
    assert stack.pids() == pids


def test_the_answer_to_fifty_brackets_is_right(stack, neighbour):
    """What can be answered is; the gateway refuses more in a sentence."""
    with stack.hostile() as connection:
        messages = connection.subscribe(f"SELECT {'(' * 50}id{')' * 50} FROM victims WHERE id < 3")
        assert isinstance(next(messages), Ack)
        first = next(messages)
        assert isinstance(first, Data) and sorted(first.rows) == [(b"1",), (b"2",)]


def test_a_poison_that_stays_is_left_to_postgres_at_its_deadline_and_counted(stack, neighbour):
    with stack.hostile() as connection:
        connection.subscribe(CORPUS["width: four joined by equal keys"])
        until_s = time.monotonic() + LEFT_WITHIN_S
        message = None
        while not isinstance(message, Refused):
            assert time.monotonic() < until_s, "the poison's owner was not told"
            neighbour.change_s(WITHIN_S)
            message = connection.next_message(0.2)
        # On a machine without time the gateway gives up before PostgreSQL does.
        assert "statement timeout" in message.message or "no result within" in message.message
    counted = stack.walk.metrics("recompute")
    assert counted['tidewire_recompute_template_failures_total{stage="deadline"}'] >= 1


def test_a_row_that_no_broker_takes_is_an_error_of_its_query(stack, neighbour):
    with stack.hostile() as connection:
        messages = connection.subscribe(CORPUS["memory: a row that no broker takes"])
        message = next(messages)
        while not isinstance(message, Refused):
            assert isinstance(message, Ack), message
            message = next(messages)
        assert "a row of the result takes" in message.message
    counted = stack.walk.metrics("recompute")
    assert counted['tidewire_recompute_template_failures_total{stage="publish"}'] >= 1
