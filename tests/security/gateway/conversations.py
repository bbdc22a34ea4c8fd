"""Generated conversations with a real PostgreSQL, and the gateway's account of what it owes beside them."""

import os
import random
import select
import socket
import struct
import time
from collections import Counter

import psycopg

from proto.pgwire.conversation import Answer, Conversation, Traffic
from proto.pgwire.framing import encode_frame

MADE = """
CREATE TABLE taken (n int CHECK (n < 100));
CREATE TABLE unwilling (n int);
CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
CREATE TRIGGER no BEFORE INSERT ON unwilling FOR EACH STATEMENT EXECUTE FUNCTION no();
CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED);
INSERT INTO late VALUES (1);
"""
ONE = (
    "SELECT 1",
    "SELECT generate_series(1, 3)",
    "SELECT pg_sleep(0.002)",
    "SELECT 1/0",
    "SELEKT",
    "",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "COPY taken FROM STDIN",
    "COPY taken FROM STDIN",
    "COPY taken TO STDOUT",
    "COPY unwilling FROM STDIN",
    "COPY nowhere FROM STDIN",
    "INSERT INTO late VALUES (1)",
    "SET search_path = public",
)
SEVERAL = (
    *ONE,
    "SELECT 1; SELECT 2",
    "SELECT 1; SELECT 1/0; SELECT 2",
    "COPY taken FROM STDIN; SELECT 1",
    "COPY taken FROM STDIN; COPY taken FROM STDIN",
    "SELECT 1; COPY taken FROM STDIN; SELECT 1/0",
    "DISCARD ALL",
)
DATA = (b"1\n", b"1\n2\n", b"", b"x\n", b"500\n", b"1", b"\\.\n")
_SHORT, _LONG = struct.Struct("!h"), struct.Struct("!i")
READY = encode_frame(ord("Z"), b"I")
DRAIN = encode_frame(ord("f"), b"end\0") + encode_frame(ord("S"), b"")
CLEAN = encode_frame(ord("Q"), b"ROLLBACK; DEALLOCATE ALL\0")
# Kinds of messages, each as often as it stands here; a conversation has a taste for some of them. `1` is a whole Parse,
# Bind and Execute of one statement, `2` that of a COPY, `3` a COPY by Query.
KINDS = "QQQQPPBBDDEEEESSSSSHCdddccfFm112233"
TASTES = (KINDS, KINDS, "QdcfS", "3SdcQ", "22dcfS", "12Sdc", "12ScS", "112HSC", "12QSdc", "PBDEHSC1", "123ScfdQ")


class Broken(AssertionError):
    """The account said that nothing is owed, and something was."""


class Fuzz:
    """Plays conversation after conversation, on one connection for as long as nothing is unsure on it."""

    def __init__(self, dsn: str, seed: int) -> None:
        self._dsn, self._dice = dsn, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._login: psycopg.Connection | None = None
        self.said: list[bytes] = []
        self._cancelled = 0

    def close(self) -> None:
        if self._login is not None:
            self._socket.close()
            self._login.close()
            self._login = None

    def play(self) -> None:
        """One conversation."""
        if self._login is None:
            self._connect()
        self.said = []
        self._cancelled -= 1
        self.counts["conversations"] += 1
        dice, taste = self._dice, self._dice.choice(TASTES)
        try:
            for _ in range(dice.randint(1, 6)):
                self._say(b"".join(message(dice, dice.choice(taste)) for _ in range(dice.randint(1, 5))))
                if dice.random() < 0.02:
                    self._cancel()
                self._listen(dice.choice((0, 0, 0, 0.001, 0.003)))
            self._settle()
        except ConnectionError:
            self.counts["ended by PostgreSQL"] += 1
            self.close()

    def _connect(self) -> None:
        self._login = psycopg.connect(self._dsn, autocommit=True)
        self._socket = socket.socket(fileno=os.dup(self._login.fileno()))
        self._talk = Conversation(Traffic())
        self._talk.log_in()
        self._talk.from_server(READY)

    def _say(self, data: bytes) -> None:
        self.said.append(data)
        self._talk.from_client(data)
        self._socket.sendall(data)
        if self._talk.at_rest and self._dice.random() < 0.5:
            self._probe()

    def _cancel(self) -> None:
        assert self._login is not None
        self._login.cancel()
        self.counts["cancels"] += 1
        self._cancelled = 2  # it may strike in the next conversation

    def _listen(self, wait_s: float) -> None:
        """Take in what is there; wherever nothing is said to be owed, look whether that is so."""
        while select.select([self._socket], [], [], wait_s)[0]:
            self._take()
            if self._talk.at_rest and self._dice.random() < 0.5:
                self._probe()

    def _take(self) -> list[object]:
        data = self._socket.recv(self._dice.choice((7, 100, 65536)))
        if not data:
            raise ConnectionResetError
        return list(self._talk.from_server(data))

    def _settle(self) -> None:
        """End what may be open, wait until nothing is owed, and look whether that is so."""
        self._say(DRAIN)
        if self._rests():
            self._probe()
            self._say(CLEAN)
        if self._rests():
            self._probe()
        if self._talk.unsure:
            self.counts["unsure"] += 1
            self.close()

    def _rests(self) -> bool:
        deadline = time.monotonic() + 20
        while not (self._talk.at_rest or self._talk.unsure):
            if not select.select([self._socket], [], [], 1.0)[0]:
                if time.monotonic() > deadline:
                    raise Broken(f"PostgreSQL is silent, and something is said to be owed after {self.said}")
                continue
            self._take()
        return self._talk.at_rest

    def _answer(self) -> list[object]:
        pieces: list[object] = []
        while not any(isinstance(piece, Answer) for piece in pieces):
            if not select.select([self._socket], [], [], 20)[0]:
                raise Broken(f"no answer to a probe after {self.said}")
            pieces += self._take()
        return pieces

    def _probe(self) -> None:
        status, nonce = self._talk.status, f"{self._dice.getrandbits(64):016x}"
        self.counts[f"at rest {status.decode()}"] += 1
        self._socket.sendall(self._talk.ask((f"SELECT '{nonce}'",), f"_probe_{nonce}"))
        try:
            pieces = self._answer()
        except ConnectionError:
            raise Broken(f"a probe ended the session after {self.said}") from None
        (answer,) = (piece for piece in pieces if isinstance(piece, Answer))
        wanted = None if status == b"E" else ((nonce.encode(),),)
        passed = b"".join(piece for piece in pieces if isinstance(piece, bytes))
        cancelled = self._cancelled > 0 and answer.rows is None
        if (answer.rows != wanted and not cancelled) or passed[:1] not in (b"", b"N", b"S", b"A"):
            raise Broken(f"{answer} and {passed!r} instead of {wanted} after {self.said}")
        if self._talk.status != status and not cancelled:
            raise Broken(f"status {self._talk.status!r} instead of {status!r} after {self.said}")


def message(dice: random.Random, kind: str) -> bytes:
    """One message of a kind; `m` is a malformed one, and a number is a fragment of several."""
    if kind == "3":
        ended = encode_frame(ord("d"), dice.choice(DATA)) + encode_frame(ord("c"), b"")
        return encode_frame(ord("Q"), b"COPY taken FROM STDIN\0") + dice.choice((b"", ended, ended))
    if kind in "12":
        sql = b"COPY taken FROM STDIN" if kind == "2" else dice.choice(ONE).encode()
        bind = encode_frame(ord("B"), b"\0\0" + _SHORT.pack(0) * 3)
        return encode_frame(ord("P"), b"\0" + sql + b"\0" + _SHORT.pack(0)) + bind + encode_frame(ord("E"), bytes(5))
    return encode_frame(ord(kind), _body(dice, kind)) if kind != "m" else _malformed(dice)


def _body(dice: random.Random, kind: str) -> bytes:
    name = dice.choice((b"", b"", b"s")) + b"\0"
    match kind:
        case "Q":
            return dice.choice(SEVERAL).encode() + b"\0"
        case "P":
            return name + dice.choice(ONE).encode() + b"\0" + _SHORT.pack(0)
        case "B":
            return dice.choice((b"", b"p")) + b"\0" + name + _SHORT.pack(0) * 3
        case "D" | "C":
            return dice.choice((b"S", b"P")) + name
        case "E":
            return dice.choice((b"", b"", b"p")) + b"\0" + _LONG.pack(dice.choice((0, 0, 1)))
        case "d":
            return dice.choice(DATA)
        case "f":
            return b"failed\0"
        case "F":
            return (
                _LONG.pack(dice.choice((1397, 1))) + _SHORT.pack(0) + _SHORT.pack(1) + _LONG.pack(2) + b"-5" + bytes(2)
            )
    return b""


def _malformed(dice: random.Random) -> bytes:
    return encode_frame(ord(dice.choice("QPBDECHSF")), dice.choice((b"", b"x", b"\0", b"\xff\xff\xff\xff")))
