"""The NOTIFY door as its users see it: SQL, a listening session, sockets, and whole results."""

import itertools
import json
import time

import psycopg
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as connect_websocket

from tests.fixtures.http_port import ask, token
from tests.fixtures.waiting import wait_until

HOUR_S = 3600
WITHIN_S = 90.0


class Listener:
    """A session through the gateway that listens; `until` gathers payloads."""

    def __init__(self, dsn, statement="LISTEN pgr"):
        self.connection = psycopg.connect(dsn, autocommit=True)
        self.connection.execute(statement)
        self.payloads = []

    def gather(self, within_s=0.2):
        self.payloads += [one.payload for one in self.connection.notifies(timeout=within_s)]
        return self.payloads

    def until(self, is_wanted, within_s=WITHIN_S):
        """The payload of the first message that is wanted, as text."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            for payload in self.gather():
                if is_wanted(json.loads(payload)):
                    return payload
        raise AssertionError(f"no such message within {within_s} s, only {self.payloads}")

    def of(self, query_id):
        return [message for payload in self.payloads if (message := json.loads(payload))["query_id"] == query_id]

    def close(self):
        self.connection.close()


class Door:
    def __init__(self, stack, port):
        self.stack, self.port = stack, port
        self.direct = stack.connect()
        self._names = itertools.count(1)

    def sql(self, *statements):
        for statement in statements:
            found = self.direct.execute(statement)
        return found.fetchall() if found.description else []

    def name(self, kind="t"):
        return f"{kind}_{next(self._names)}"

    def register(self, query, *, name=None, rest=""):
        """Register a query and wait for its first result."""
        name = name or self.name("q")
        ((answer,),) = self.direct.execute(f"SELECT pgr.subscribe(%s, %s{rest})", [name, query]).fetchall()
        wait_until(lambda: self.result(name).status == 200, "the first result", within_s=WITHIN_S)
        return name, answer["gen"]

    def headers(self, **claims):
        return {"Authorization": f"Bearer {token({'exp': time.time() + HOUR_S, 'sub': 'reader', **claims})}"}

    def result(self, query_id, **claims):
        return ask(self.port, f"/api/v1/q/{query_id}/result", headers=self.headers(**claims))

    def socket(self, query_id, **claims):
        return connect_websocket(
            f"ws://127.0.0.1:{self.port}/ws/{query_id}", additional_headers=self.headers(**claims), open_timeout=30
        )

    def refused(self, path, headers=None):
        """The status with which a socket is refused before the upgrade, and the body."""
        try:
            with connect_websocket(f"ws://127.0.0.1:{self.port}{path}", additional_headers=headers, open_timeout=30):
                return 101, b""
        except InvalidStatus as refusal:
            return refusal.response.status_code, refusal.response.body

    def listen(self, statement="LISTEN pgr"):
        return Listener(self.stack.gateway_dsn, statement)

    def close(self):
        self.direct.close()
