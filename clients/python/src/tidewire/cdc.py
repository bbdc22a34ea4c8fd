"""The CDC door: changes of a table or invalidations of a query over HTTP, each once until it is acked.

    from tidewire.cdc import Cdc

    door = Cdc("http://127.0.0.1:8081", token=token)
    orders = door.subscribe_table("app", "orders", include={"after": True}, format="plain_json")
    for event in orders:
        print(event.op, event.pk, event.after)
        event.ack()

The iterator reads the stream (SSE) and comes back by itself where it stood when a connection or gateway is lost. What
was acked is kept by the server: `door.subscription(sub_id)` goes on there, from any process and at any gateway.
"""

import base64
import contextlib
import http.client
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

RPC = "/api/v1/rpc"
# A silent stream says that it is there every 15 s.
READ_TIMEOUT_S = 60.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 5.0
RETRIED = (502, 503, 504)


class CdcError(Exception):
    """The door refused a call; `code` is one of its error codes."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.details = code, message, dict(details or {})


class ResnapshotRequired(Exception):
    """The subscription cannot go on from where it stands: take the table anew, ack `offset`, and iterate again."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"take the table anew ({reason}), then ack {offset}")
        self.offset, self.reason = offset, reason


class _Unavailable(Exception):
    """Try again."""


@dataclass(frozen=True)
class CdcEvent:
    """One change; `data` is all that the door told."""

    data: Mapping[str, Any]
    subscription: "CdcSubscription" = field(repr=False, compare=False)

    @property
    def seq(self) -> int:
        return int(self.data["seq"])

    @property
    def op(self) -> str:
        return str(self.data["op"])

    @property
    def table(self) -> str:
        return str(self.data["table"])

    @property
    def pk(self) -> list[Any] | None:
        return self.data.get("pk")

    @property
    def before(self) -> Mapping[str, Any] | None:
        return self.data.get("before")

    @property
    def after(self) -> Mapping[str, Any] | None:
        return self.data.get("after")

    def ack(self) -> None:
        """This event and all before it are done with."""
        self.subscription.ack(self.seq)


class Cdc:
    """The door of one gateway, by a token or by a PostgreSQL login."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a gateway: http://host:port")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._timeout_s = timeout_s
        if token is not None:
            credentials = f"Bearer {token}"
        elif user is not None and password is not None:
            credentials = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        else:
            raise ValueError("a token, or user and password, are needed")
        self._headers = {"Authorization": credentials}

    def call(self, method: str, **params: Any) -> Any:
        """Any method of the door; waits while the gateway says that it is not ready."""
        waits = _waits()
        deadline = time.monotonic() + self._timeout_s
        while True:
            try:
                return self._called(method, params)
            except (_Unavailable, OSError, http.client.HTTPException) as error:
                wait_s = next(waits)
                if time.monotonic() + wait_s > deadline:
                    raise CdcError("timeout", f"the gateway does not answer ({error})") from error
                time.sleep(wait_s)

    def subscribe_table(self, db: str, table: str, **wishes: Any) -> "CdcSubscription":
        """`wishes`: ops, pk, pk_range, columns, include, format."""
        made = self.call("cdc.subscribe_table", db=db, table=table, **wishes)
        return CdcSubscription(self, made["sub_id"], made["offset"])

    def subscribe_query(self, query_id: str, args: list[Any] | None = None, **wishes: Any) -> "CdcSubscription":
        made = self.call("cdc.subscribe_query", query_id=query_id, args=args or [], **wishes)
        return CdcSubscription(self, made["sub_id"], made["offset"])

    def prepare(self, sql: str) -> str:
        """The id of a prepared query."""
        return str(self.call("query.prepare", sql=sql)["query_id"])

    def subscription(self, sub_id: str, offset: int = 0) -> "CdcSubscription":
        """One that there is, from where it was acked or from this offset on."""
        return CdcSubscription(self, sub_id, offset)

    def _called(self, method: str, params: Mapping[str, Any]) -> Any:
        body = json.dumps({"skeinql": "1.0", "id": 1, "method": method, "params": params})
        connection = self._connected(self._timeout_s)
        try:
            connection.request("POST", RPC, body, {**self._headers, "Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status in RETRIED:
            raise _Unavailable(f"HTTP {answer.status}")
        told = json.loads(content)
        if not told["ok"]:
            error = told["error"]
            raise CdcError(error["code"], error["message"], error["details"])
        return told["result"]

    def _connected(self, timeout_s: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=timeout_s)

    @contextlib.contextmanager
    def _stream(self, sub_id: str, offset: int) -> Iterator[http.client.HTTPResponse]:
        connection = self._connected(READ_TIMEOUT_S)
        try:
            headers = {**self._headers, "Last-Event-ID": str(offset)}
            connection.request("GET", f"/api/v1/cdc/sse/{sub_id}", headers=headers)
            with connection.getresponse() as answer:
                if answer.status in RETRIED:
                    raise _Unavailable(f"HTTP {answer.status}")
                if answer.status != 200:
                    error = json.loads(answer.read())["error"]
                    raise CdcError(error["code"], error["message"], error["details"])
                yield answer
        finally:
            connection.close()


class CdcSubscription:
    """Iterate over it; each event comes again until it is acked."""

    def __init__(self, door: Cdc, sub_id: str, offset: int) -> None:
        self._door, self.sub_id, self.offset = door, sub_id, offset
        self.state = "healthy"

    def __iter__(self) -> Iterator[CdcEvent]:
        """Without end; ResnapshotRequired where the door says so, CdcError if the subscription is gone."""
        waits = _waits()
        while True:
            try:
                with self._door._stream(self.sub_id, self.offset) as answer:
                    for name, data in _events(answer):
                        waits = _waits()
                        event = self._taken(name, data)
                        if event is not None:
                            yield event
                            self.offset = max(self.offset, event.seq)
            except (_Unavailable, OSError, http.client.HTTPException):
                pass
            time.sleep(next(waits))

    def _taken(self, name: str, data: Mapping[str, Any]) -> CdcEvent | None:
        match name:
            case "backpressure":
                self.state = data["state"]
                return None
            case "resnapshot":
                raise ResnapshotRequired(data["resnapshot_from_offset"], data["resnapshot_reason"])
            case "error":
                raise CdcError(data["code"], data["message"], data["details"])
        return CdcEvent(data, self)

    def poll(self, limit: int = 200, wait_ms: int = 0) -> list[CdcEvent]:
        """The next events, without a stream; they come again until they are acked."""
        told = self._door.call("cdc.poll", sub_id=self.sub_id, from_offset=self.offset, limit=limit, wait_ms=wait_ms)
        if told["resnapshot_required"]:
            raise ResnapshotRequired(told["resnapshot_from_offset"], told["resnapshot_reason"])
        self.state = told["backpressure"]["state"]
        self.offset = told["next_offset"]
        return [CdcEvent(event, self) for event in told["events"]]

    def ack(self, offset: int) -> int:
        """Everything up to this offset is done with; the offset that is acked now."""
        acked = int(self._door.call("cdc.ack", sub_id=self.sub_id, offset=offset)["acked_offset"])
        self.offset = max(self.offset, acked)
        return acked

    def pause(self) -> None:
        self._door.call("cdc.pause", sub_id=self.sub_id)

    def resume(self) -> None:
        self._door.call("cdc.resume", sub_id=self.sub_id)

    def close(self) -> None:
        """For ever: the server forgets it."""
        self._door.call("cdc.close", sub_id=self.sub_id)


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """Name and data of each event of a stream, until it ends."""
    name, data = "message", ""
    while line := answer.readline():
        text = line.decode().rstrip("\r\n")
        key, _, value = text.partition(": ")
        if key == "event":
            name = value
        elif key == "data":
            data = value
        elif not text and data:
            yield name, json.loads(data)
            name, data = "message", ""


def _waits() -> Iterator[float]:
    wait_s = FIRST_WAIT_S
    while True:
        yield wait_s
        wait_s = min(LONGEST_WAIT_S, 2 * wait_s)
