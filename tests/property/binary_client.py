"""A client of the binary door: reads F2, F3, F4 and F7 by the documents, into the model's messages."""

from proto.pgwire import live
from proto.pgwire.framing import Framer
from proto.positions import parse_lsn
from tests.property.delivery_model import NO_SUBSCRIPTION, Ack, Client, Data, PartialData, Refused, State, Update

PARAMETER_STATUS = ord("S")


def plain(message):
    """A message of the wire as the model has it."""
    match message:
        case live.Ack(subscription=subscription, tables=tables):
            return Ack(subscription, tables)
        case live.Refused(subscription=subscription, message=words):
            return Refused(NO_SUBSCRIPTION if subscription == live.NO_SUBSCRIPTION else subscription, words)
        case live.Data(subscription=subscription, update=update, rows=rows):
            return Data(subscription, Update[update.name], rows)
        case live.PartialData(subscription=subscription, rows=rows):
            return PartialData(subscription, tuple((row.columns, row.values) for row in rows))
    raise AssertionError(message)


class BinaryClient(Client):
    def send(self, data):
        framer = Framer()
        framer.feed(data)
        messages = [self._read(frame) for frame in framer.frames()]
        assert framer.pending_bytes == 0
        super().send(messages)

    def _read(self, frame):
        if frame.type != PARAMETER_STATUS:
            return plain(live.decode_from_gateway(frame))
        name, value = frame.body.rstrip(b"\0").split(b"\0")
        assert name == b"tidewire.lsn"
        return State(parse_lsn(value.decode()))
