"""Commands as a gateway sends them, and the topics as they hold what an index wrote."""

from uuid import uuid4

from proto.tidewire.v1.commands_pb2 import Command, Owner, Pause, Renew, Resume, SnapshotRequest, Subscribe, Unsubscribe
from services.registry.core.limits import SubscriptionLimits
from services.registry.core.subscription_index import SubscriptionIndex
from services.registry.core.writes import PutSubscription

SECOND_US = 1_000_000


def subscribe(sql="SELECT 1", owner="c", role="r", login="", gateway="g", at_us=0, lease_ms=1000):
    who = Owner(role=role, login=login or role, connection_id=owner)
    body = Subscribe(subscription_id=uuid4().bytes, sql=sql, owner=who, lease_ms=lease_ms)
    return Command(command_id=uuid4().bytes, gateway_id=gateway, sent_us=at_us, subscribe=body)


def renew(gateway="g", lease_ms=0):
    return Command(command_id=uuid4().bytes, gateway_id=gateway, renew=Renew(lease_ms=lease_ms))


def unsubscribe(command):
    return _of(unsubscribe=Unsubscribe(subscription_id=command.subscribe.subscription_id))


def pause(command):
    return _of(pause=Pause(subscription_id=command.subscribe.subscription_id))


def resume(command):
    return _of(resume=Resume(subscription_id=command.subscribe.subscription_id))


def request(query_id, request_id=b"whole"):
    return _of(snapshot_request=SnapshotRequest(query_id=query_id, request_id=request_id))


def new_index(owner=100, everyone=1000, per_s=1000, login=1000, stall_us=100 * SECOND_US):
    return SubscriptionIndex(SubscriptionLimits(owner, everyone, per_s, login, 10_000, 20_000), stall_us=stall_us)


class Topics:
    """What the compacted topics hold after some writes."""

    def __init__(self):
        self.queries, self.records = {}, {}

    def put(self, writes):
        for write in writes:
            if isinstance(write, PutSubscription):
                self._keep(self.records, write.key, write.record)
            else:
                self._keep(self.queries, write.query_id, write.query)
        return self

    def copies(self):
        return tuple(
            {key: type(record).FromString(record.SerializeToString()) for key, record in held.items()}
            for held in (self.queries, self.records)
        )

    @staticmethod
    def _keep(held, key, record):
        held.pop(key, None)
        if record is not None:
            held[key] = type(record).FromString(record.SerializeToString())


def _of(**body):
    return Command(command_id=uuid4().bytes, gateway_id="g", **body)
