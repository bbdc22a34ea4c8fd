"""Who is told of a failure, and where in the log it stands."""

from types import SimpleNamespace

import pytest

from proto.positions import Lsn
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_ERROR
from proto.tidewire.v1.queries_pb2 import Query, SnapshotWanted
from services.recompute.core.live import Failure, LiveQuery, LiveTemplate, Request
from services.recompute.core.result import Position, Result
from services.recompute.telling import Telling

OVERFLOW = Failure("22003", "integer out of range")
HISTORY = 1


class Records:
    """What would stand in `deltas`."""

    def __init__(self):
        self.told, self.answered = [], []

    def append(self, deltas):
        self.told += list(deltas)
        return len(self.told)

    def answer(self, wanted, results):
        self.answered += [(wanted.request_id, result) for result in results]
        return 1


@pytest.fixture
def log():
    return SimpleNamespace(position=Position(Lsn(200), 2), history=HISTORY, barriers={"before": 90, "after": 150})


@pytest.fixture
def records():
    return Records()


@pytest.fixture
def telling(log, records):
    metrics = SimpleNamespace(deltas=SimpleNamespace(inc=lambda _: None))
    return Telling(records, log, metrics, emit_barrier=lambda: "own", barrier_wait_s=1.0, clock=lambda: 0.0)


@pytest.fixture
def live():
    """A query that PostgreSQL runs, and that its readers have a result of."""
    query = Query(query_id=b"query", template_id=b"template")
    made = LiveQuery(0, query, LiveTemplate(b"template", query), None)
    made.result = Result(b"query", HISTORY, [], [])
    list(made.result.begin([(b"1",)], Position(Lsn(50), 1), None))
    made.leave_to_postgres(0.0)
    return made


def ask(live, barrier):
    live.requests[barrier.encode()] = Request(SnapshotWanted(request_id=barrier.encode(), barrier_id=barrier), 0.0)


def test_readers_are_told_of_an_error_at_the_place_of_the_data_that_it_is_about(telling, records, live):
    telling.fail(live, OVERFLOW, Position(Lsn(100), 1))
    (error,) = records.told
    assert (error.kind, error.to_lsn, error.error_sqlstate) == (DELTA_KIND_ERROR, 100, "22003")


def test_an_error_of_older_data_is_no_answer_to_who_asks_behind_a_later_commit(telling, records, live):
    telling.fail(live, OVERFLOW, Position(Lsn(100), 1))
    ask(live, "before")
    ask(live, "after")
    telling.answer(live, is_current=False)
    assert [(request, result.to_lsn) for request, result in records.answered] == [(b"before", 100)]
    # PostgreSQL was asked again, and still fails.
    telling.fail(live, OVERFLOW, Position(Lsn(160), 1))
    telling.answer(live, is_current=False)
    assert [request for request, _ in records.answered] == [b"before", b"after"]
    assert len(records.told) == 1


def test_an_error_that_is_current_answers_who_asks_where_the_log_stands(telling, records, live, log):
    telling.fail(live, OVERFLOW, Position(Lsn(100), 1))
    ask(live, "after")
    ask(live, "not in the log yet")
    telling.answer(live, is_current=True)
    assert [(request, result.to_lsn) for request, result in records.answered] == [(b"after", log.position.lsn)]


def test_a_query_that_can_have_no_result_is_refused_at_once(telling, records, live, log):
    telling.fail(live, Failure("42P01", 'relation "gone" does not exist'))
    ask(live, "not in the log yet")
    telling.answer(live, is_current=False)
    assert [result.to_lsn for _, result in records.answered] == [log.position.lsn]
