"""A switchboard with a worker before it and clients behind it."""

from uuid import UUID, uuid4

from proto.pgwire.live import Ack, Data
from services.gateway.core.effects import Begin, Fan, Send
from services.gateway.core.ring import RingLimits
from services.gateway.core.selective import Rule
from services.gateway.core.switchboard import Limits, Switchboard
from tests.property.delivered import Client, Worker

WHOLE = Rule(enabled=False)


class Exchange:
    """A switchboard, a worker, and what each client was sent since it was last looked at."""

    def __init__(self, *, keyed=True, **limits):
        rings = RingLimits(**limits.pop("rings", {}))
        self.board, self.worker = Switchboard(Limits(rings=rings, **limits)), Worker(keyed=keyed)
        self.clients: dict[str, Client] = {}
        self.others = []

    def client(self, name="c", *, wants_lsn=False):
        if name not in self.clients:
            self.clients[name] = Client(keyed=self.worker.keyed)
            self.board.open(name, self.clients[name], wants_lsn=wants_lsn)
        return self.clients[name]

    def expect(self, name="c", tables=1) -> UUID:
        self.client(name)
        subscription = uuid4()
        self.board.expect(subscription, name, tables, WHOLE)
        return subscription

    def subscribed(self, name="c") -> UUID:
        subscription = self.expect(name)
        self.deliver(self.worker.snapshot(subscription))
        assert [type(one) for one in self.told(subscription)] == [Ack, Data]
        return subscription

    def deliver(self, records):
        for record in records:
            self.perform(self.board.deliver(record))

    def perform(self, effects):
        for effect in effects:
            match effect:
                case Fan(parcel=parcel, to=to):
                    for one in to:
                        one.line.outlet.send(parcel.addressed(one.key))
                case Begin(subscriber=one):
                    one.line.outlet.send(one.ack)
                case Send(line=line, data=data):
                    line.outlet.send(data)
                case _:
                    self.others.append(effect)

    def told(self, subscription):
        """What came for the subscription since the last look."""
        for client in self.clients.values():
            if subscription in client.held:
                found, client.held[subscription].messages = client.held[subscription].messages, []
                return found
        return []

    def did(self):
        """What else was to be done since the last look."""
        found, self.others = self.others, []
        return found
