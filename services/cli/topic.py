"""`tidewire topic ls|tail|reset`: durable topics, what is in them, and where their groups stand."""

import argparse
import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar, cast

import psycopg
from msgspec import Struct
from tidewire.topics import TopicError, TopicMessage, Topics

TOPICS = """
SELECT topic_id, name, alias, partitions, retention_seconds, retention_max_bytes, routes
FROM _tidewire_topics.topics ORDER BY name
"""
GROUPS = """
SELECT topic_id, group_id, partition_id, last_acked_offset FROM _tidewire_topics.topic_offsets ORDER BY 1, 2, 3
"""
NOT_INSTALLED = "topics are not installed in this database: run `tidewire install`"
# A gateway that answers nothing for so long is away; `tail` waits for it.
ANSWER_S = 30.0
MOST_ASKED = 1_000


T = TypeVar("T")
Run = Callable[[argparse.Namespace, Mapping[str, str]], int]


class TopicFailed(Exception):
    """The door or the database refused."""

    exit_code, retry = 1, False


class Group(Struct, frozen=True):
    group_id: str
    partition: int
    acked: int


class Listed(Struct, frozen=True):
    """A topic as `ls` shows it; `ends` are the offsets that its partitions will give next."""

    name: str
    alias: str | None
    partitions: int
    retention_seconds: int | None
    retention_max_bytes: int | None
    routes: list[dict[str, Any]]
    ends: list[int]
    groups: list[Group]


def add_parsers(commands: Any, *, ls: Run, tail: Run, reset: Run) -> None:
    """The three commands, each with what carries it out."""
    topic = commands.add_parser("topic", help="the durable topics")
    inner = topic.add_subparsers(title="commands", required=True, metavar="COMMAND")
    listing = inner.add_parser("ls", help="list topics, their sources, and how far each group is behind")
    listing.add_argument("--dsn", help="connection string of a gateway; default: GATEWAY_DSN, or the stack's")
    listing.add_argument("--json", action="store_true", help="a JSON object a topic")
    listing.set_defaults(run=ls)
    tailing = inner.add_parser("tail", help="print a topic's messages as they come")
    tailing.add_argument("topic", metavar="TOPIC", help="name, alias or id")
    tailing.add_argument("--group", help="as a consumer of this group, which acks what is printed; default: nobody's")
    tailing.add_argument(
        "--from", dest="start", default="latest", type=start_of, metavar="earliest|latest|OFFSET", help="(latest)"
    )
    tailing.add_argument("--partition", type=int, default=0, metavar="N", help="(0)")
    tailing.add_argument("--messages", type=int, metavar="N", help="exit after so many")
    tailing.add_argument("--json", action="store_true", help="each message as the door gives it")
    tailing.set_defaults(run=tail)
    resetting = inner.add_parser("reset", help="move a group to another offset")
    resetting.add_argument("topic", metavar="TOPIC", help="name, alias or id")
    resetting.add_argument("group", metavar="GROUP")
    resetting.add_argument(
        "--to", required=True, type=start_of, metavar="earliest|latest|OFFSET", help="the message that it gets next"
    )
    resetting.add_argument("--partition", type=int, metavar="N", help="of this one alone; default: of all")
    resetting.set_defaults(run=reset)


def start_of(text: str) -> str | int:
    if text in ("earliest", "latest"):
        return text.capitalize()
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is none of earliest, latest, an offset")


def ls(dsn: str, door: Topics, *, as_json: bool) -> int:
    for topic in _asked(listed(dsn, door), ANSWER_S):
        print(json.dumps(shown(topic)) if as_json else "\n".join(lines(topic)))
    return 0


async def listed(dsn: str, door: Topics) -> list[Listed]:
    """All topics: their definitions and groups from the database, their ends from the door."""
    try:
        topics, groups = await asyncio.to_thread(_read, dsn)
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        raise TopicFailed(NOT_INSTALLED) from None
    except psycopg.Error as error:
        raise TopicFailed(f"the topics could not be read: {str(error).splitlines()[0]}") from error
    asked = [{"topic_id": row[0], "partition_id": number} for row in topics for number in range(row[3])]
    ends: dict[str, list[int]] = {}
    for at in range(0, len(asked), MOST_ASKED):
        answer = await door.post("/api/topics/latest-offsets", {"partitions": asked[at : at + MOST_ASKED]})
        for one in answer["offsets"]:
            ends.setdefault(one["topic_id"], []).append(one["next_offset"])
    members: dict[str, list[Group]] = {}
    for row in groups:
        members.setdefault(row[0], []).append(Group(*row[1:]))
    return [
        Listed(name, alias, count, seconds, size, json.loads(routes), ends.get(topic_id, []), members.get(topic_id, []))
        for topic_id, name, alias, count, seconds, size, routes in topics
    ]


def shown(topic: Listed) -> dict[str, Any]:
    groups = [
        {"group_id": one.group_id, "partition_id": one.partition, "acked": one.acked, "behind": behind(topic, one)}
        for one in topic.groups
    ]
    facts = {name: getattr(topic, name) for name in Listed.__struct_fields__ if name not in ("ends", "groups")}
    return {**facts, "next_offsets": topic.ends, "groups": groups}


def behind(topic: Listed, group: Group) -> int:
    """How many messages the group has not acked."""
    return max(0, topic.ends[group.partition] - group.acked - 1) if group.partition < len(topic.ends) else 0


def lines(topic: Listed) -> list[str]:
    alias = f" (alias {topic.alias})" if topic.alias else ""
    seconds = "for ever" if topic.retention_seconds is None else f"for {topic.retention_seconds} s"
    size = "" if topic.retention_max_bytes is None else f", up to {topic.retention_max_bytes} bytes"
    found = [f"{topic.name}{alias}: next offset {', '.join(map(str, topic.ends))}; kept {seconds}{size}"]
    for route in topic.routes:
        where = f" where {route['filter_expr']}" if route["filter_expr"] else ""
        found.append(f"  from {route['table_id']} on {route['op'].lower()}, {route['payload_mode'].lower()}{where}")
    for group in topic.groups:
        place = f"partition {group.partition} acked {group.acked}"
        found.append(f"  group {group.group_id}: {place}, {behind(topic, group)} behind")
    return found


def tail(door: Topics, arguments: argparse.Namespace) -> int:
    """Until interrupted, or so many messages were printed."""
    return _asked(_tail(door, arguments))


async def _tail(door: Topics, arguments: argparse.Namespace) -> int:
    found = door.topic(arguments.topic).consume(
        group=arguments.group, start=arguments.start, partition=arguments.partition
    )
    left = arguments.messages
    async with aclosing(cast(AsyncGenerator[TopicMessage], found)) as messages:
        async for message in messages:
            print(json.dumps(dict(message.data)) if arguments.json else line(message), flush=True)
            if arguments.group is not None:
                await message.ack()
            left = None if left is None else left - 1
            if left == 0:
                break
    return 0


def line(message: TopicMessage) -> str:
    """Offset, op, table, payload."""
    data: Mapping[str, Any] = message.data
    return f"{message.offset} {message.op} {data['source_table']} {json.dumps(message.payload, ensure_ascii=False)}"


def reset(door: Topics, topic: str, group: str, to: str | int, partition: int | None) -> int:
    for row in _asked(_reset(door, topic, group, to, partition), ANSWER_S):
        print(f"group {row[1]} of {row[0]}, partition {row[2]}: next offset {row[3]}")
    return 0


async def _reset(door: Topics, topic: str, group: str, to: str | int, partition: int | None) -> list[list[Any]]:
    if to == "Latest":
        ends = await _ends(door, topic, partition)
        return [row for number, end in ends.items() for row in await _reset(door, topic, group, end, number)]
    of = "" if partition is None else f" PARTITION {partition}"
    offset = 0 if to == "Earliest" else to
    statement = f"RESET CONSUMER GROUP {literal(group)} ON {quoted(topic)}{of} TO {offset}"
    answer = await door.post("/v1/api/sql", {"sql": statement})
    return list(answer["results"][0]["rows"])


async def _ends(door: Topics, topic: str, partition: int | None) -> dict[int, int]:
    """The offset that each partition will give next, or this one."""
    ends: dict[int, int] = {}
    for number in itertools.count(partition or 0):
        asked = {"partitions": [{"topic": topic, "partition_id": number}]}
        try:
            answer = await door.post("/api/topics/latest-offsets", asked)
        except TopicError as error:
            if error.status == 404 and ends:
                break
            raise
        ends[number] = answer["offsets"][0]["next_offset"]
        if partition is not None:
            break
    return ends


def quoted(name: str) -> str:
    """A topic's name as SQL has it: what stands before the first dot is the namespace."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split(".", 1))


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _read(dsn: str) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(TOPICS).fetchall(), connection.execute(GROUPS).fetchall()


def _asked(answer: Coroutine[Any, Any, T], within_s: float | None = None) -> T:
    async def waited() -> T:
        async with asyncio.timeout(within_s):
            return await answer

    try:
        return asyncio.run(waited())
    except TopicError as error:
        raise TopicFailed(str(error)) from error
    except TimeoutError:
        raise TopicFailed("the gateway does not answer: is it running, and is GATEWAY_URL its HTTP port?") from None
