"""Who gets a message of `notifications`, whatever happens while rights are asked; and when the door is ready."""

import asyncio

import pytest
import structlog

from proto.tidewire.v1.notifications_pb2 import Notification, NotificationRecord
from services.chassis.health import PartProgress
from services.gateway.core.notify.sockets import SocketLimits, Sockets
from services.gateway.flow.notify.hub import NotifyHub


class Session:
    def __init__(self, role):
        self.principal, self.got = (role, role), []

    def notify(self, channel, payload):
        self.got.append(payload)


class SlowRoles:
    """Answers when it is let; everybody may be everybody."""

    def __init__(self):
        self.asked, self.answers = [], asyncio.Event()

    async def may_be(self, own, wanted):
        self.asked.append(own)
        await self.answers.wait()
        return False


class Scripted:
    """Batches that come, each with the reader's trouble at that time."""

    trouble = None

    def __init__(self, *turns):
        self._turns = turns

    async def batches(self):
        for batch, trouble in self._turns:
            self.trouble = trouble
            yield batch


def told(payload=b"x"):
    return NotificationRecord(notification=Notification(query_id="q", role="shop", channel="pgr", payload=payload))


def hub_with(roles):
    return NotifyHub(Sockets(SocketLimits()), None, None, roles, reader_role="reader", log=structlog.get_logger())


@pytest.mark.asyncio
async def test_a_session_of_another_login_that_begins_to_listen_while_rights_are_asked_misses_nothing():
    roles = SlowRoles()
    hub, first, second = hub_with(roles), Session("first"), Session("second")
    await hub.listen(first, hub.place)
    telling = asyncio.create_task(hub.follow(Scripted(([told()], None)), PartProgress("NOTIFY")))
    while not roles.asked:
        await asyncio.sleep(0)
    await hub.listen(second, hub.place)
    roles.answers.set()
    await telling
    assert (first.got, second.got) == ([b"x"], [b"x"])


@pytest.mark.asyncio
async def test_the_door_is_not_ready_while_the_topic_cannot_be_read():
    said = []

    class Told(PartProgress):
        def ready(self):
            said.append(None)

        def not_ready(self, reason):
            said.append(reason)

    await hub_with(SlowRoles()).follow(Scripted(([], None), ([], "Kafka is away"), ([], None)), Told("NOTIFY"))
    assert said == [None, "Kafka is away", None]
