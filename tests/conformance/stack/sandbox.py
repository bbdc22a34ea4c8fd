"""The whole stack with small limits, and what a client of it holds: for scenarios that are played frame by frame."""

import itertools

import psycopg

from proto.pgwire.live import Ack, Data, PartialData, Refused, Subscribe, Update
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import WireClient

# Small enough to be reached; the defaults are compared with the documents elsewhere.
OWNER_LIMIT, GLOBAL_LIMIT, MAX_ROWS = 5, 12, 50
LIMITS = {
    "TIDEWIRE_REGISTRY_OWNER_LIMIT": str(OWNER_LIMIT),
    "TIDEWIRE_REGISTRY_GLOBAL_LIMIT": str(GLOBAL_LIMIT),
    # All connections here are of one login.
    "TIDEWIRE_REGISTRY_ROLE_SHARE": "1",
    "TIDEWIRE_GATEWAY_MAX_ROWS": str(MAX_ROWS),
}
WITHIN_S = 60.0


class Sandbox:
    """A stack, a connection straight to PostgreSQL, and tables that no other scenario uses."""

    def __init__(self, stack, direct):
        self._stack, self._direct = stack, direct
        self._numbers = itertools.count(1)

    def client(self, **given):
        """A client of the gateway; `given` are other parts of its connection string."""
        return WireClient(psycopg.conninfo.make_conninfo(self._stack.gateway_dsn, **given), timeout_s=WITHIN_S)

    def write(self, *statements):
        """One commit by somebody else."""
        with self._direct.transaction():
            for statement in statements:
                self._direct.execute(statement)

    def read(self, sql):
        """PostgreSQL's own answer, as the rows of a message."""
        rows = psycopg.ClientCursor(self._direct).execute(sql)
        return sorted(tuple(None if value is None else str(value).encode() for value in row) for row in rows)

    def table(self, columns):
        name = f"t{next(self._numbers)}"
        self.write(f"CREATE TABLE {name} ({columns})")
        return name

    def table_of(self, sql):
        """A table that holds what a query answers."""
        name = f"t{next(self._numbers)}"
        self.write(f"CREATE TABLE {name} AS {sql}")
        return name

    def metrics(self, service="gateway"):
        return self._stack.metrics(service)

    def wait_for_nobody(self):
        """Until the gateway has noticed that all clients have left."""
        self.wait_until(lambda: self.metrics()["vibesql_subscriptions_active"] == 0)

    def wait_until(self, condition):
        wait_until(condition, self.metrics)


class Subscribed:
    """A subscription as its client holds it: rows by the documents' rules, and every message that made them."""

    def __init__(self, client, sql, parameters=(), filter=None, selective=None):
        self.client, self.messages = client, []
        client.send(Subscribe(sql, tuple(parameters), filter, selective))
        ack, full = client.live(WITHIN_S), client.live(WITHIN_S)
        assert isinstance(ack, Ack), ack
        assert isinstance(full, Data) and full.update is Update.FULL, full
        assert full.subscription == ack.subscription
        self.id, self.tables, self.rows = ack.subscription, ack.tables, list(full.rows)

    def next(self, within_s=WITHIN_S):
        """The next live message of the connection, which must be for this subscription; None if none comes."""
        message = self.client.live(within_s)
        if message is not None:
            assert message.subscription == self.id, message
            self.take(message)
        return message

    def take(self, message):
        self.messages.append(message)
        match message:
            case Data(update=Update.FULL, rows=rows):
                self.rows = list(rows)
            case Data(update=Update.INSERT, rows=rows):
                self.rows += rows
            case Data(update=Update.DELETE, rows=rows):
                for row in rows:
                    self.rows.remove(row)
            case Data(update=Update.UPDATE, rows=rows):
                for row in rows:
                    self._replace(row[0], row)
            case PartialData(rows=rows):
                for partial in rows:
                    old = self._of(partial.values[0])
                    assert partial.columns == len(old)
                    self._replace(old[0], tuple(partial.values.get(at, value) for at, value in enumerate(old)))
            case _:
                raise AssertionError(message)

    def until(self, rows):
        """Take messages until the result is this."""
        while sorted(self.rows, key=repr) != sorted(rows, key=repr):
            assert self.next() is not None, f"{self.rows} and not {rows}"

    def _of(self, key):
        (found,) = [row for row in self.rows if row[0] == key]
        return found

    def _replace(self, key, row):
        self.rows[self.rows.index(self._of(key))] = row


def refused(client, sql, parameters=(), filter=None):
    """Subscribe to what is refused at once; the refusal."""
    client.send(Subscribe(sql, tuple(parameters), filter))
    message = client.live(WITHIN_S)
    assert isinstance(message, Refused), message
    return message


def kind(message):
    """F7, or the update type of an F2."""
    return "F7" if isinstance(message, PartialData) else message.update


def kinds(frames):
    """The types of frames as letters."""
    return "".join(chr(frame.type) for frame in frames)
