"""Reads the steps of a behaviour that begins with a Subscribe, and plays them."""

import re

from proto.pgwire.framing import Frame
from proto.pgwire.live import (
    ACK,
    DATA,
    NO_SUBSCRIPTION,
    Ack,
    Data,
    FromGateway,
    Pause,
    Refused,
    Resume,
    Subscribe,
    Update,
    decode_from_gateway,
)
from tests.conformance.stack.sandbox import WITHIN_S, Subscribed, kinds

SETTING = """
    DROP TABLE IF EXISTS users, nonexistent_table;
    CREATE TABLE users (id int PRIMARY KEY, name text);
    INSERT INTO users VALUES (1, 'Alice'), (2, 'Carol');
"""
VALID = "SELECT * FROM users"


class Flow:
    """One client, what it asked, and what it was answered."""

    def __init__(self, sandbox, client):
        self.sandbox, self.client = sandbox, client
        self.users = sandbox.read(VALID)
        self.sql, self.answers = "", []

    def subscribe(self, text):
        filter = re.fullmatch(r'valid query, filter "(.*)"', text)
        self.sql = VALID if filter else text.strip('"')
        self.client.send(Subscribe(self.sql, (), filter[1] if filter else None))

    def next(self) -> tuple[Frame, FromGateway]:
        """The very next frame, which must be a live message: nothing of PostgreSQL's comes with it (V21)."""
        frame = self.client.frame(WITHIN_S)
        assert frame is not None
        message = decode_from_gateway(frame)
        self.answers.append(message)
        return frame, message

    def acknowledged(self, tables):
        frame, message = self.next()
        assert isinstance(message, Ack) and message.tables == int(tables)
        assert message.subscription.version == 4 and (frame.type, len(frame.body) + 4) == (ACK, 22)

    def initial_rows(self):
        frame, message = self.next()
        assert isinstance(message, Data) and (frame.type, message.update) == (DATA, Update.FULL)
        assert message.subscription == self.answers[0].subscription
        assert sorted(message.rows) == self.sandbox.read(self.sql)

    def error(self, id_, how, words):
        _, message = self.next()
        assert isinstance(message, Refused)
        assert (message.subscription == NO_SUBSCRIPTION) == (id_ != "nonzero")
        assert message.message == words if how == "==" else message.message.startswith(words)
        assert id_ != "nonzero" or message.subscription.version == 4

    def no_ready(self):
        """The next ReadyForQuery belongs to the next query."""
        assert kinds(self.client.query("SELECT 1")) == "TDCZ"

    def unchanged(self):
        assert self.sandbox.read(VALID) == self.users

    def gone(self):
        """What it asked for comes to be: a new subscription hears of it, under another id, and the old one does not."""
        gone = self.answers[-1].subscription
        self.sandbox.write("CREATE TABLE nonexistent_table (id int PRIMARY KEY)")
        self.client.send(Pause(gone), Resume(gone))
        held = Subscribed(self.client, self.sql)
        assert held.id != gone
        self.sandbox.write("INSERT INTO nonexistent_table VALUES (1)")
        assert held.next() == Data(held.id, Update.INSERT, ((b"1",),))


STEPS = (
    (r"C: F0 (.+)", Flow.subscribe),
    (r"S: F4 \(uuid v4, table_count=(\d+)\)", Flow.acknowledged),
    (r"S: F2 type 0 initial rows", Flow.initial_rows),
    (r'S: F3 id=(\S+) message (startswith|==) "(.*)"', Flow.error),
    (r"no Z after Subscribe", Flow.no_ready),
    (r"row must NOT have been changed.*", Flow.unchanged),
    (r"subscription gone", Flow.gone),
)


def play(sandbox, steps):
    sandbox.write(SETTING)
    with sandbox.client() as client:
        flow = Flow(sandbox, client)
        for step in steps:
            found = [(action, match) for words, action in STEPS if (match := re.fullmatch(words, step))]
            assert found, f"no such step is known: {step}"
            action, match = found[0]
            action(flow, *match.groups())
