"""Barriers of our own never hold up or end the loop, whatever PostgreSQL says to them."""

import threading

import psycopg
import pytest
import structlog

from proto.tidewire.v1.queries_pb2 import SnapshotWanted
from services.chassis.postgres import PostgresRefused, PostgresUnreachable
from services.recompute.core.live_query import Request
from services.recompute.flow.own_barriers import OwnBarriers


def request():
    return Request(SnapshotWanted(barrier_id="lost"), 0.0)


def until_told(barriers, requests):
    """Ask at each turn, as the loop does."""
    turns = threading.Event()
    while not all(one.own_barrier for one in requests):
        for one in requests:
            if one.own_barrier is None:
                barriers.want(one)
        turns.wait(0.001)


@pytest.mark.parametrize(
    "error",
    [
        PostgresUnreachable("here", "connection refused"),
        PostgresRefused("here", "password authentication failed"),
        psycopg.errors.DiskFull("no space left on device"),
        psycopg.errors.ReadOnlySqlTransaction("cannot execute in a read-only transaction"),
        RuntimeError("what nobody thought of"),
    ],
)
def test_an_error_of_postgres_is_tried_again_and_ends_nobody(error):
    answers = iter([error, error, "written"])

    def emit():
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    barriers, asked = OwnBarriers(emit, structlog.get_logger()), request()
    until_told(barriers, [asked])
    assert asked.own_barrier == "written"
    barriers.close()


def test_a_postgres_that_does_not_answer_does_not_hold_up_the_loop_and_one_barrier_serves_all_who_wait():
    answered, written = threading.Event(), []

    def emit():
        answered.wait(30)
        written.append(f"barrier {len(written)}")
        return written[-1]

    barriers = OwnBarriers(emit, structlog.get_logger())
    first, others = request(), [request() for _ in range(500)]
    barriers.want(first)
    for one in others:
        barriers.want(one)
    assert first.own_barrier is None
    answered.set()
    until_told(barriers, [first, *others])
    # Who came while the first was being written may have committed behind it.
    assert first.own_barrier == "barrier 0" and {one.own_barrier for one in others} == {"barrier 1"}
    barriers.close()
