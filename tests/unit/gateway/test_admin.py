"""What the administrators' page is told: who is silent, what waits where, and which subscriptions come first."""

import structlog
from hypothesis import given
from hypothesis import strategies as st

from proto.tidewire.v1.status_pb2 import Status
from services.chassis.kafka import Kafka
from services.gateway.core.admin import RANK, STATES, SubscriptionRow, hops, page_of, service_shown
from services.gateway.inbound.status import FORGOTTEN_S, Statuses

SECOND_US = 1_000_000
NOW_US = 1_000 * SECOND_US


def said(service="capture", *, at_us=NOW_US, ready=True, instance="one", **figures) -> Status:
    return Status(
        service=service, instance=instance, written_us=at_us, every_ms=2000, ready=ready, reason="r", figures=figures
    )


def statuses_at_now() -> Statuses:
    log = structlog.get_logger()
    return Statuses(Kafka(bootstrap="127.0.0.1:1"), log=log, clock=lambda: NOW_US / SECOND_US)


def row(name: str, state: str = "healthy", lag: int = 0, door="cdc") -> SubscriptionRow:
    return SubscriptionRow(
        id=name,
        door=door,
        of="public.orders",
        kind="table",
        owner="shop",
        role=None,
        state=state,
        lag=lag,
        unit="events",
    )


def test_a_process_that_missed_four_turns_is_silent_whatever_it_said_last():
    healths = [service_shown(said(at_us=NOW_US - after), NOW_US)["health"] for after in (0, 7_900_000, 8_100_000)]
    assert healths == ["ready", "ready", "silent"]
    assert service_shown(said(ready=False), NOW_US)["health"] == "not ready"


def test_each_stretch_of_the_road_shows_what_waits_there():
    statuses = [
        said(tidewire_capture_lag_bytes=10.0),
        said("recompute", tidewire_recompute_reached_lsn=70.0),
        said("recompute", instance="two", tidewire_recompute_reached_lsn=95.0),
        said("fanout", tidewire_fanout_behind_records=3.0),
        said("fanout", instance="two", tidewire_fanout_behind_records=4.0),
    ]
    found = hops(statuses, durable_at=lambda at_us: 100.0, log_lsn=99, deliveries_behind=2, now_us=NOW_US)
    # Workers share the queries, so that the slowest counts; fanouts share the partitions, so that all count.
    assert [hop.lag for hop in found] == [10.0, 30.0, 7.0, 2.0, 1.0]


def test_what_nobody_said_is_not_known_instead_of_nothing():
    found = hops([], durable_at=lambda at_us: None, log_lsn=99, deliveries_behind=0, now_us=NOW_US)
    assert [hop.lag for hop in found] == [None, None, None, 0.0, None]


def test_a_reader_is_compared_with_where_the_log_stood_when_it_spoke():
    statuses = statuses_at_now()
    for second, lsn in ((0, 100.0), (2, 900.0)):
        statuses.take(said(at_us=NOW_US - (4 - second) * SECOND_US, tidewire_capture_durable_lsn=lsn))
    assert [statuses.durable_lsn(NOW_US - back * SECOND_US) for back in (5, 3, 0)] == [None, 100.0, 900.0]


def test_a_process_that_ended_or_is_silent_for_long_is_forgotten():
    statuses = statuses_at_now()
    statuses.take(said("fanout"))
    statuses.take(said("registry", at_us=NOW_US - int((FORGOTTEN_S + 1) * SECOND_US)))
    statuses.take(said("gateway"))
    statuses.take(Status(service="gateway", instance="one", is_last=True))
    assert [one.service for one in statuses.every()] == ["fanout"]


def test_garbage_on_the_topic_is_told_of_once_and_what_follows_is_read():
    statuses = statuses_at_now()
    with structlog.testing.capture_logs() as told:
        for value in (
            b"\xff\xff",
            said("fanout").SerializeToString(),
            None,
            b"\xff",
            said("registry").SerializeToString(),
        ):
            statuses.take_record(value)
    assert {"fanout", "registry"} <= {one.service for one in statuses.every()}
    assert [one["event"] for one in told] == ["status_unreadable"]


def test_a_flood_of_processes_is_bounded():
    statuses = statuses_at_now()
    for number in range(2_000):
        statuses.take(said("forged", instance=str(number)))
    assert len(statuses.every()) == 500


def test_search_looks_at_id_table_and_owner_and_states_are_counted_before_the_state_is_chosen():
    rows = [row("a", "paused"), row("b"), row("c", door="binary")]
    found = page_of(rows, search="ORDERS", state="paused", limit=10)
    assert ([one.id for one in found.rows], found.found, found.total) == (["a"], 1, 3)
    assert (found.by_state["paused"], found.by_state["healthy"]) == (1, 2)
    assert [one.id for one in page_of(rows, door="binary", limit=10).rows] == ["c"]
    assert page_of(rows, search="nobody", limit=10).found == 0


ROWS = st.lists(
    st.builds(row, st.integers(0, 10**6).map(str), st.sampled_from(STATES), st.integers(0, 5000)),
    unique_by=lambda one: one.id,
    max_size=60,
)


@given(ROWS, st.integers(1, 20))
def test_pages_are_all_rows_once_the_worst_first(rows, limit):
    pages = [page_of(rows, offset=offset, limit=limit).rows for offset in range(0, len(rows), limit)]
    shown = [one for page in pages for one in page]
    assert sorted(one.id for one in shown) == sorted(one.id for one in rows)
    assert [(RANK[one.state], -one.lag) for one in shown] == sorted((RANK[one.state], -one.lag) for one in rows)
