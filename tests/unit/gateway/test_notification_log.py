"""The reader of `notifications` outlives Kafka's errors and garbage, and says meanwhile that it cannot read."""

import pytest
import structlog

from proto.tidewire.v1.notifications_pb2 import Notification, NotificationRecord
from proto.topics import NOTIFICATIONS
from services.chassis.kafka import Kafka, KafkaUnreachable, TopicMissing
from services.gateway.core.notify.continuity import Gap
from services.gateway.inbound import notifications
from services.gateway.inbound.notifications import NotificationLog


class Record:
    def __init__(self, offset, value):
        self._offset, self._value = offset, value

    def partition(self):
        return 0

    def offset(self):
        return self._offset

    def value(self):
        return self._value


class Broker:
    """One partition with records, and the errors that its clients meet next, at an opening or at a read."""

    def __init__(self):
        self.records, self.refusals, self.failures = [], [], []

    def tell(self, query_id, epoch=1):
        record = NotificationRecord(epoch=epoch, writer=7, notification=Notification(query_id=query_id))
        self.records.append(record.SerializeToString())


class BrokersReader:
    """As PartitionsReader: what stands before an error in the same answer is lost with it."""

    broker: Broker

    def __init__(self, kafka, topic, *, client_id):
        self.positions = {}

    def low_and_high(self, number):
        if self.broker.refusals:
            raise self.broker.refusals.pop(0)
        return 0, len(self.broker.records) if number == 0 else 0

    def add(self, offsets):
        self.positions = dict(offsets)

    def read(self, timeout_s):
        begin, self.positions[0] = self.positions[0], len(self.broker.records)
        if self.broker.failures:
            raise self.broker.failures.pop(0)
        return [Record(at, value) for at, value in enumerate(self.broker.records)][begin:]

    def close(self):
        self.positions = {}


@pytest.fixture
def broker(monkeypatch):
    made = Broker()
    monkeypatch.setattr(notifications, "PartitionsReader", type("Made", (BrokersReader,), {"broker": made}))
    monkeypatch.setattr(notifications, "RETRY_S", 0.0)
    return made


async def turns(log, count):
    """Of each turn: which queries were told of, and whether the reader was in trouble."""
    found = []
    async for batch in log.batches():
        told = ["a gap" if isinstance(one, Gap) else one.notification.query_id for one in batch]
        found.append((told, log.trouble is not None))
        if len(found) == count:
            break
    return found


def opened():
    return NotificationLog(Kafka(bootstrap="127.0.0.1:1"), log=structlog.get_logger())


@pytest.mark.asyncio
async def test_an_error_is_trouble_for_a_while_and_nothing_that_came_with_it_is_lost(broker):
    log = opened()
    broker.tell("first")
    broker.failures, broker.refusals = [KafkaUnreachable("here", "down")], []
    found = await turns(log, 1)
    broker.refusals = [TopicMissing(NOTIFICATIONS.name, 0)]
    found += await turns(log, 2)
    log.close()
    assert found == [([], True), ([], True), (["first"], False)]


@pytest.mark.asyncio
async def test_a_topic_that_was_made_anew_is_read_from_its_beginning_with_its_own_writers(broker):
    for name in ("a", "b", "c"):
        broker.tell(name, epoch=9)
    log = opened()
    broker.tell("d", epoch=9)
    found = await turns(log, 1)
    broker.records, broker.failures = [], [KafkaUnreachable("here", "down")]
    broker.tell("new", epoch=1)
    found += await turns(log, 2)
    log.close()
    assert found == [(["d"], False), ([], True), (["a gap", "new"], False)]


@pytest.mark.asyncio
async def test_garbage_is_left_out_and_told_of(broker):
    log = opened()
    broker.records.append(b"\xff\xff")
    broker.tell("behind")
    with structlog.testing.capture_logs() as told:
        assert await turns(log, 1) == [(["behind"], False)]
    log.close()
    assert [(one["event"], one["offset"]) for one in told] == [("notification_unreadable", 0)]
