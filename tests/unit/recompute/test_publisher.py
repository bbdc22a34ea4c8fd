"""Who is told of a failure, and where in the log it stands."""

from types import SimpleNamespace

import pytest
import structlog
from prometheus_client import CollectorRegistry

from proto.positions import Lsn
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_ERROR
from proto.tidewire.v1.queries_pb2 import Query, SnapshotWanted
from services.recompute.core.live_query import Failure, LiveQuery, LiveTemplate, Request
from services.recompute.core.result import Position, Result
from services.recompute.errors import RowTooLarge
from services.recompute.flow.failures import Failures
from services.recompute.flow.own_barriers import OwnBarriers
from services.recompute.flow.publisher import Publisher
from services.recompute.metrics import Metrics

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
def publisher(log, records):
    metrics = Metrics(CollectorRegistry())
    failures = Failures(metrics, structlog.get_logger())
    barriers = OwnBarriers(lambda: "own", structlog.get_logger())
    return Publisher(records, log, metrics, failures, own_barriers=barriers, barrier_wait_s=1.0, clock=lambda: 0.0)


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


def test_an_error_is_published_at_the_position_of_the_data_that_causes_it(publisher, records, live):
    publisher.fail(live, OVERFLOW, Position(Lsn(100), 1))
    (error,) = records.told
    assert (error.kind, error.to_lsn, error.error_sqlstate) == (DELTA_KIND_ERROR, 100, "22003")


def test_an_error_at_an_older_position_does_not_answer_a_request_behind_a_later_commit(publisher, records, live):
    publisher.fail(live, OVERFLOW, Position(Lsn(100), 1))
    ask(live, "before")
    ask(live, "after")
    publisher.answer(live, is_current=False)
    assert [(request, result.to_lsn) for request, result in records.answered] == [(b"before", 100)]
    # PostgreSQL was asked again, and still fails.
    publisher.fail(live, OVERFLOW, Position(Lsn(160), 1))
    publisher.answer(live, is_current=False)
    assert [request for request, _ in records.answered] == [b"before", b"after"]
    assert len(records.told) == 1


def test_a_current_error_answers_a_request_at_the_end_of_the_log(publisher, records, live, log):
    publisher.fail(live, OVERFLOW, Position(Lsn(100), 1))
    ask(live, "after")
    ask(live, "not in the log yet")
    publisher.answer(live, is_current=True)
    assert [(request, result.to_lsn) for request, result in records.answered] == [(b"after", log.position.lsn)]


def test_a_query_that_can_have_no_result_is_refused_at_once(publisher, records, live, log):
    publisher.fail(live, Failure("42P01", 'relation "gone" does not exist'))
    ask(live, "not in the log yet")
    publisher.answer(live, is_current=False)
    assert [result.to_lsn for _, result in records.answered] == [log.position.lsn]


def test_a_row_that_no_record_can_hold_is_an_error_of_its_query(publisher, live, records):
    def too_large():
        yield from live.result.change({(b"2",): 1}, Position(Lsn(100), 1))
        raise RowTooLarge(2_000_000, 1_000_000)

    assert not publisher.publish(live, too_large())
    assert [(one.kind, one.error_sqlstate) for one in records.told] == [(DELTA_KIND_ERROR, "54000")]
    assert live.result is None and live.failure.sqlstate == "54000"
