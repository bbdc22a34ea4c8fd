"""Topic messages as each path names their fields (decision 23), and what a request may ask for (decision 25)."""

from base64 import b64encode
from typing import Any

from proto.tidewire.v1.user_topics_pb2 import TopicMessage, TopicOperation, TopicPayload
from services.gateway.core.topics.statements import DEFAULT_LIMIT, MOST_MESSAGES, Start

OPERATIONS = {
    TopicOperation.TOPIC_OPERATION_INSERT: "Insert",
    TopicOperation.TOPIC_OPERATION_UPDATE: "Update",
    TopicOperation.TOPIC_OPERATION_DELETE: "Delete",
}
PAYLOADS = {
    TopicPayload.TOPIC_PAYLOAD_KEY: "Key",
    TopicPayload.TOPIC_PAYLOAD_FULL: "Full",
    TopicPayload.TOPIC_PAYLOAD_DIFF: "Diff",
}
# A client that waits as long as it asked for would give up before the answer is there.
LONG_S, ANSWER_BEFORE_S = 10.0, 2.0
MOST_OFFSET = 2**63 - 1


def of_document(message: TopicMessage) -> dict[str, Any]:
    """`/api/topics/*`."""
    return {
        "topic_id": message.topic_id,
        "partition_id": message.partition,
        "offset": message.offset,
        "message_id": message.key,
        "source_table": f"{message.source_schema}.{message.source_table}",
        "op": OPERATIONS[message.operation],
        "ts": message.committed_us // 1000,
        "payload_mode": PAYLOADS[message.payload_mode],
        "payload": b64encode(message.payload).decode(),
        "user": message.user,
    }


def of_code(message: TopicMessage) -> dict[str, Any]:
    """`/v1/api/topics/*`."""
    return {
        "topic_id": message.topic_id,
        "partition_id": message.partition,
        "offset": message.offset,
        "payload": b64encode(message.payload).decode(),
        "key": message.key,
        "timestamp_ms": message.committed_us // 1000,
        "user": message.user,
        "op": OPERATIONS[message.operation],
    }


def of_sql(message: TopicMessage) -> list[Any]:
    """The eight columns of CONSUME; operations in small letters."""
    return [
        message.topic_id,
        message.partition,
        message.offset,
        message.key,
        b64encode(message.payload).decode(),
        message.committed_us // 1000,
        message.user,
        OPERATIONS[message.operation].lower(),
    ]


def clamped(limit: int | None) -> int:
    return DEFAULT_LIMIT if limit is None else max(1, min(limit, MOST_MESSAGES))


def waiting_s(asked: float | None, *, default: float, most: float) -> float:
    """How long a consume may be held."""
    wanted = min(default if asked is None else max(0.0, asked), most)
    return wanted - ANSWER_BEFORE_S if wanted >= LONG_S else wanted


def start_of(value: object) -> Start:
    """`start` of a request; raises ValueError."""
    if isinstance(value, str) and value.lower() in ("latest", "earliest"):
        return "Latest" if value.lower() == "latest" else "Earliest"
    if isinstance(value, dict) and len(value) == 1:
        ((name, offset),) = value.items()
        if isinstance(name, str) and name.lower() == "offset" and type(offset) is int and 0 <= offset <= MOST_OFFSET:
            return offset
    raise ValueError('start must be "Latest", "Earliest" or {"Offset": n}')
