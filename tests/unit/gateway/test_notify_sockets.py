"""Who gets a message of a registered query over WebSocket (P23, P28, P33, decision 30)."""

import asyncio

import pytest
import structlog

from proto.tidewire.v1.notifications_pb2 import (
    NOTIFICATION_KIND_DELTA,
    NOTIFICATION_KIND_FAILED,
    NOTIFICATION_KIND_RESUBSCRIBED,
    NOTIFICATION_KIND_SILENT,
    Notification,
    NotificationRecord,
)
from services.chassis.health import PartProgress
from services.gateway.core.http_identity import HttpIdentity
from services.gateway.core.notify.audience import satisfied
from services.gateway.core.notify.continuity import Continuity, Gap
from services.gateway.core.notify.sockets import (
    FORBIDDEN,
    MOST_GENS,
    REREGISTERED,
    RESTARTS,
    TOO_SLOW,
    SocketLimits,
    Sockets,
)
from services.gateway.flow.notify.hub import NotifyHub


def message(gen, kind=NOTIFICATION_KIND_DELTA, payload=b"{}", sqlstate=""):
    return Notification(query_id="q", gen=gen, kind=kind, payload=payload, sqlstate=sqlstate)


@pytest.fixture
def sockets():
    return Sockets(SocketLimits(messages=2, bytes=100))


def test_p28_only_the_gen_that_it_is_bound_to(sockets):
    old, bound = sockets.bind("q", 3), sockets.bind("q", 4)
    other = sockets.bind("other", 4)
    sockets.told(message(4, payload=b"4"))
    sockets.told(message(3, payload=b"3"))
    assert (list(bound.waiting), list(old.waiting), list(other.waiting)) == ([b"4"], [], [])
    assert (old.close_code, bound.close_code) == (REREGISTERED, None)


def test_p23_resubscribed_and_silent_ones_are_not_forwarded(sockets):
    bound = sockets.bind("q", 4)
    sockets.told(message(4, NOTIFICATION_KIND_RESUBSCRIBED, b"{}"))
    sockets.told(message(4, NOTIFICATION_KIND_SILENT, b""))
    assert (list(bound.waiting), bound.close_code) == ([], None)
    sockets.told(message(5, NOTIFICATION_KIND_RESUBSCRIBED, b"{}"))
    assert (list(bound.waiting), bound.close_code) == ([], REREGISTERED)


def test_a_socket_that_is_let_in_too_late_ends_at_once(sockets):
    sockets.told(message(5))
    assert sockets.bind("q", 4).close_code == REREGISTERED


def test_gens_are_remembered_of_so_many_queries_and_no_more(sockets):
    for number in range(MOST_GENS):
        sockets.told(Notification(query_id=f"q{number}", gen=5))
    sockets.told(Notification(query_id="q0", gen=5))  # the one that was told of last
    sockets.told(Notification(query_id="another", gen=5))
    assert len(sockets._gens) == MOST_GENS
    assert sockets.bind("q0", 4).close_code == REREGISTERED
    assert sockets.bind("q1", 4).close_code is None


def test_a_record_that_does_not_follow_is_noticed():
    seen = Continuity({0: 7, 1: 0})
    assert [seen.follows(0, offset) for offset in (7, 8, 12, 13)] == [True, True, False, True]
    assert seen.follows(1, 0)


async def test_p35_where_records_are_missing_sockets_are_told_to_come_again():
    """P35: what was compacted away is not passed over in silence."""

    class Log:
        async def batches(self):
            yield [NotificationRecord(notification=message(4, payload=b"told"))]
            yield [Gap(0), NotificationRecord(notification=message(4, payload=b"behind the gap"))]
            await asyncio.Event().wait()

    sockets = Sockets(SocketLimits())
    log = structlog.wrap_logger(structlog.ReturnLogger())
    hub = NotifyHub(sockets, None, None, None, reader_role="readers", log=log)
    caller = HttpIdentity(name="n", database_role=None, service_role="user", method="bearer", claims={})
    socket = hub.enter("q", 4, caller, None)
    socket.bell.clear()
    following = asyncio.create_task(hub.follow(Log(), PartProgress("log")))
    await socket.bell.wait()
    while socket.bound.close_code is None:
        await asyncio.sleep(0)
    assert (socket.bound.close_code, list(socket.bound.waiting)) == (RESTARTS, [b"told"])
    following.cancel()


def test_one_that_does_not_read_is_told_so_and_bounded(sockets):
    bound = sockets.bind("q", 4)
    for _ in range(3):
        sockets.told(message(4))
    assert (bound.close_code, list(bound.waiting)) == (TOO_SLOW, [])


def test_lost_rights_end_it_and_a_passing_failure_does_not(sockets):
    bound = sockets.bind("q", 4)
    sockets.told(message(4, NOTIFICATION_KIND_FAILED, b"", "22012"))
    assert bound.close_code is None
    sockets.told(message(4, NOTIFICATION_KIND_FAILED, b"", "42501"))
    assert bound.close_code == FORBIDDEN


def test_what_postgresql_has_registered_counts_where_the_topic_was_not_seen(sockets):
    bound = sockets.bind("q", 4)
    sockets.committed("q", 4)
    assert bound.close_code is None
    sockets.committed("q", None)
    assert bound.close_code == REREGISTERED


@pytest.mark.parametrize(
    ("audience", "claims", "is_satisfied"),
    [
        (None, {}, True),
        ({}, {}, True),
        ({"sub": "42"}, {"sub": "42"}, True),
        ({"sub": "42"}, {"sub": "43"}, False),
        ({"sub": 42}, {"sub": "42"}, False),
        ({"tenant": "a"}, {}, False),
        ({"tenant": None}, {}, False),
        ({"groups": "x"}, {"groups": ["x", "y"]}, True),
        ({"groups": ["x", "z"]}, {"groups": ["x", "y"]}, False),
        ({"app": {"id": 1}}, {"app": {"id": 1, "more": 2}}, True),
        ({"admin": True}, {"admin": 1}, False),
    ],
)
def test_p33_an_audience_must_be_satisfied_by_claims(audience, claims, is_satisfied):
    caller = HttpIdentity(name="n", database_role=None, service_role="user", method="bearer", claims=claims)
    assert satisfied(audience, caller) is is_satisfied
