"""Durable topics over HTTP: messages of a consumer group, each again until it is acked.

    from tidewire.topics import Topics

    topic = Topics("http://127.0.0.1:8081", token=token).topic("app.new_messages")
    async for message in topic.consume(group="ai-service"):
        print(message.op, message.payload)
        await message.ack()

Several consumers may share a group: each is given messages that no other has. What a consumer that died was given, and
had not acked, comes again to the others.
"""

import asyncio
import base64
import http.client
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 5.0
RETRIED = (502, 503, 504)
# A consume is held for so long; the answer is there before that.
HELD_S, READ_TIMEOUT_S = 30, 60.0


class TopicError(Exception):
    """The door refused; `code` is one of its error codes."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True)
class TopicMessage:
    """One message; `data` is all that the door told."""

    data: Mapping[str, Any]
    topic: "Topic" = field(repr=False, compare=False)
    group: str | None = field(repr=False, compare=False)
    claim_id: str | None = field(repr=False, compare=False)

    @property
    def offset(self) -> int:
        return int(self.data["offset"])

    @property
    def partition(self) -> int:
        return int(self.data["partition_id"])

    @property
    def op(self) -> str:
        return str(self.data["op"])

    @property
    def payload(self) -> Any:
        """The JSON that the route's payload mode says."""
        return json.loads(base64.b64decode(self.data["payload"]))

    async def ack(self) -> None:
        """It and what was given together with it before it are done with."""
        if self.group is None:
            raise ValueError("without a group nothing is acked")
        await self.topic.ack(self.group, self.offset, partition=self.partition, claim_id=self.claim_id)


class Topics:
    """The topics of one gateway, by a token or by a PostgreSQL login."""

    def __init__(
        self, url: str, *, token: str | None = None, user: str | None = None, password: str | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a gateway: http://host:port")
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        if token is not None:
            credentials = f"Bearer {token}"
        elif user is not None and password is not None:
            credentials = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        else:
            raise ValueError("a token, or user and password, are needed")
        self._headers = {"Authorization": credentials, "Content-Type": "application/json"}

    def topic(self, name: str) -> "Topic":
        """By name, alias or id."""
        return Topic(self, name)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """An answer of the door; while the gateway is away or not ready it is asked again."""
        wait_s = FIRST_WAIT_S
        while True:
            try:
                return await asyncio.to_thread(self._post, path, body)
            except (OSError, http.client.HTTPException):
                pass
            except TopicError as error:
                if error.status not in RETRIED:
                    raise
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=READ_TIMEOUT_S)
        try:
            connection.request("POST", path, body=json.dumps(body), headers=self._headers)
            answer = connection.getresponse()
            found = json.loads(answer.read() or b"{}")
        except ValueError as error:
            raise http.client.HTTPException("the gateway's answer is no JSON") from error
        finally:
            connection.close()
        if answer.status != 200:
            words = found.get("error", answer.reason)
            # /v1/api/sql has both in one object.
            told = words if isinstance(words, dict) else {"code": found.get("code", ""), "message": words}
            raise TopicError(answer.status, str(told.get("code", "")), str(told.get("message", "")))
        return dict(found)


class Topic:
    def __init__(self, topics: Topics, name: str) -> None:
        self._topics, self.name = topics, name

    async def consume(
        self, *, group: str | None = None, start: str | int = "Latest", partition: int = 0, limit: int = 100
    ) -> AsyncIterator[TopicMessage]:
        """Messages for ever. `start` counts for a group that has no place yet, and without a group."""
        place: Any = {"Offset": start} if isinstance(start, int) else start
        while True:
            body = {
                "topic": self.name,
                "group_id": group,
                "start": place,
                "limit": limit,
                "partition_id": partition,
                "timeout_seconds": HELD_S,
            }
            batch = await self._topics.post("/api/topics/consume", body)
            for message in batch["messages"]:
                yield TopicMessage(message, self, group, batch.get("claim_id"))
            place = {"Offset": batch["next_offset"]}

    async def ack(self, group: str, upto: int, *, partition: int = 0, claim_id: str | None = None) -> None:
        """With a claim its messages up to there; without one everything up to there."""
        body = {"topic": self.name, "group_id": group, "partition_id": partition, "upto_offset": upto}
        await self._topics.post("/api/topics/ack", body if claim_id is None else {**body, "claim_id": claim_id})
