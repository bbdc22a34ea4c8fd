"""A minimal live client of the PG port, for tests that look at single messages; the real one is clients/python."""

import base64
import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from uuid import UUID

from psycopg.conninfo import conninfo_to_dict

from proto.pgwire import live
from proto.pgwire.framing import Frame, Framer, encode_frame

PROTOCOL_3 = 196608
QUERY, TERMINATE, PASSWORD = b"QXp"
READY, DATA_ROW, ERROR, AUTHENTICATION, COMMAND_COMPLETE = b"ZDERC"
CHUNK_BYTES = 64 * 1024


class ServerError(Exception):
    """PostgreSQL, or the gateway, answered with an error."""


class Scram:
    """The client's half of SCRAM-SHA-256 (RFC 5802), without channel binding."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._bare = f"n=,r={secrets.token_urlsafe(18)}"

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, challenge: str) -> bytes:
        fields = dict(part.split("=", 1) for part in challenge.split(","))
        salted = hashlib.pbkdf2_hmac("sha256", self._password, base64.b64decode(fields["s"]), int(fields["i"]))
        unproven = f"c=biws,r={fields['r']}"
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        signed = f"{self._bare},{challenge},{unproven}".encode()
        signature = hmac.digest(hashlib.sha256(client_key).digest(), signed, "sha256")
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()


class LiveConnection:
    """One blocking connection; ordinary SQL by `query`, live messages by `subscribe` and `messages`."""

    def __init__(self, dsn: str, timeout_s: float = 30.0) -> None:
        parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
        self._timeout_s = timeout_s
        self._framer = Framer()
        # Live messages that came while something else was waited for.
        self._live: list[live.FromGateway] = []
        self._socket = socket.create_connection((parts.get("host", "127.0.0.1"), int(parts.get("port", 5432))))
        self._start(parts["user"], parts.get("dbname", parts["user"]), parts.get("password", ""))

    def __enter__(self) -> "LiveConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(self, sql: str) -> list[tuple[bytes | None, ...]]:
        """Run ordinary SQL and return its rows as text."""
        self._send(encode_frame(QUERY, sql.encode() + b"\0"))
        rows: list[tuple[bytes | None, ...]] = []
        failure: str | None = None
        while (frame := self._next_ordinary()).type != READY:
            if frame.type == DATA_ROW:
                rows.append(_row(frame.body))
            elif frame.type == ERROR:
                failure = _error(frame.body)
        if failure is not None:
            raise ServerError(failure)
        return rows

    def subscribe(
        self, sql: str, parameters: Sequence[str | None] = (), filter: str | None = None
    ) -> Iterator[live.FromGateway]:
        """Send a Subscribe and return the messages that come from then on, of all subscriptions: Ack, Full, changes."""
        values = tuple(None if value is None else value.encode() for value in parameters)
        self._send(live.encode(live.Subscribe(sql, values, filter)))
        return self.messages()

    def unsubscribe(self, subscription: UUID) -> None:
        self._send(live.encode(live.Unsubscribe(subscription)))

    def pause(self, subscription: UUID) -> None:
        self._send(live.encode(live.Pause(subscription)))

    def resume(self, subscription: UUID) -> None:
        self._send(live.encode(live.Resume(subscription)))

    def messages(self) -> Iterator[live.FromGateway]:
        """Live messages as they come; ends only with the connection."""
        while True:
            message = self.next_message(self._timeout_s)
            if message is None:
                raise TimeoutError(f"no live message within {self._timeout_s:.0f} s")
            yield message

    def next_message(self, timeout_s: float) -> live.FromGateway | None:
        """The next live message; None if none comes in time."""
        deadline = time.monotonic() + timeout_s
        while not self._live:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            try:
                frame = self._next(left_s)
            except TimeoutError:
                return None
            self._keep(frame)
        return self._live.pop(0)

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it may be gone already
            self._send(encode_frame(TERMINATE, b""))
        self._socket.close()

    def _start(self, user: str, database: str, password: str) -> None:
        fields = ("user", user, "database", database, "client_encoding", "UTF8", "")
        body = struct.pack("!i", PROTOCOL_3) + b"".join(field.encode() + b"\0" for field in fields)
        self._send(struct.pack("!i", len(body) + 4) + body)
        scram = Scram(password)
        while (frame := self._next(self._timeout_s)).type != READY:
            if frame.type == ERROR:
                raise ServerError(_error(frame.body))
            if frame.type == AUTHENTICATION:
                self._authenticate(scram, struct.unpack("!i", frame.body[:4])[0], frame.body[4:], password)

    def _authenticate(self, scram: Scram, code: int, rest: bytes, password: str) -> None:
        match code:
            case 3:
                self._send(encode_frame(PASSWORD, password.encode() + b"\0"))
            case 10:
                first = scram.first()
                self._send(encode_frame(PASSWORD, b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
            case 11:
                self._send(encode_frame(PASSWORD, scram.final(rest.decode())))
            case 0 | 12:
                pass
            case _:
                raise ServerError(f"authentication {code} is not known to this client: use SCRAM or a password")

    def _send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def _next_ordinary(self) -> Frame:
        while (frame := self._next(self._timeout_s)).type in live.BACKEND_TYPES:
            self._keep(frame)
        return frame

    def _keep(self, frame: Frame) -> None:
        """Live messages are kept; what else comes unasked (notices, settings) is not for us."""
        if frame.type in live.BACKEND_TYPES:
            self._live.append(live.decode_from_gateway(frame))
        elif frame.type == ERROR:
            raise ServerError(_error(frame.body))

    def _next(self, timeout_s: float) -> Frame:
        deadline = time.monotonic() + timeout_s
        while (frame := self._framer.take()) is None:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            data = self._socket.recv(CHUNK_BYTES)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._framer.feed(data)
        return frame


def _row(body: bytes) -> tuple[bytes | None, ...]:
    values: list[bytes | None] = []
    at = 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        (length,) = struct.unpack_from("!i", body, at)
        at += 4
        values.append(None if length < 0 else body[at : at + length])
        at += max(length, 0)
    return tuple(values)


def _error(body: bytes) -> str:
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    return f"{fields.get(b'C', '')}: {fields.get(b'M', '')}"
