"""What a client sends, frame by frame, and what PostgreSQL must say to it: through the gateway as directly."""

import struct
import time
from collections.abc import Sequence

import psycopg
from msgspec import Struct

from proto.pgwire.framing import Frame
from proto.pgwire.live import BACKEND_TYPES, Ack, Data, FromGateway, Refused, Subscribe, Update, decode_from_gateway
from tests.fixtures.wire import WireClient

PATIENCE_S = 30.0
_COUNT = struct.Struct("!h")
_LIMIT = struct.Struct("!i")

Message = tuple[str, bytes] | Subscribe


class Step(Struct, frozen=True):
    """Messages sent in one write, and the types of PostgreSQL's answers to them, in order.

    `meanwhile` is what somebody else commits before them.
    """

    messages: tuple[Message, ...]
    kinds: str
    meanwhile: str = ""


class Played(Struct, frozen=True):
    """PostgreSQL's frames, step by step, and the live messages that came between them."""

    frames: list[list[Frame]]
    live: list[FromGateway]


def query(sql: str) -> Message:
    return "Q", sql.encode() + b"\0"


def parse(sql: str, name: str = "") -> Message:
    return "P", name.encode() + b"\0" + sql.encode() + b"\0" + _COUNT.pack(0)


def bind(*values: bytes, portal: str = "", statement: str = "") -> Message:
    counted = b"".join(_LIMIT.pack(len(value)) + value for value in values)
    names = portal.encode() + b"\0" + statement.encode() + b"\0"
    return "B", names + _COUNT.pack(0) + _COUNT.pack(len(values)) + counted + _COUNT.pack(0)


def execute(portal: str = "", rows: int = 0) -> Message:
    return "E", portal.encode() + b"\0" + _LIMIT.pack(rows)


def describe(kind: str, name: str = "") -> Message:
    return "D", kind.encode() + name.encode() + b"\0"


SYNC: Message = ("S", b"")
FLUSH: Message = ("H", b"")


def play(client: WireClient, steps: Sequence[Step], others: psycopg.Connection, *, subscribing: bool) -> Played:
    """Send the steps, the Subscribes among them only if `subscribing`; a step begins when the last one is answered."""
    frames: list[list[Frame]] = []
    live: list[FromGateway] = []
    asked = 0
    for step in steps:
        if step.meanwhile:
            others.execute(step.meanwhile)
        messages = [one for one in step.messages if subscribing or not isinstance(one, Subscribe)]
        if messages:
            client.send(*messages)
        asked += sum(isinstance(one, Subscribe) for one in messages)
        frames.append(_answers(client, len(step.kinds), asked, live))
    return Played(frames, live)


def quiet(client: WireClient, within_s: float = 0.3) -> list[Frame]:
    """What comes without being asked for."""
    found = []
    while (frame := client.frame(within_s)) is not None:
        found.append(frame)
    return found


def answered(live: Sequence[FromGateway]) -> int:
    """How many Subscribes have got all that they get at first: an error, or an Ack and a whole result."""
    acked = {one.subscription for one in live if isinstance(one, Ack)}
    whole = [one for one in live if isinstance(one, Data) and one.update is Update.FULL and one.subscription in acked]
    # Who had a result and was told that it ends is counted already.
    begun = {one.subscription for one in whole}
    return len(whole) + sum(isinstance(one, Refused) and one.subscription not in begun for one in live)


def _answers(client: WireClient, expected: int, asked: int, live: list[FromGateway]) -> list[Frame]:
    found: list[Frame] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < expected or answered(live) < asked:
        frame = client.frame(max(0.01, deadline_s - time.monotonic()))
        assert frame is not None, f"{found} and {live} are not {expected} frames and {asked} answers"
        if frame.type in BACKEND_TYPES:
            live.append(decode_from_gateway(frame))
        else:
            found.append(frame)
    return found
