"""What topic SQL can ask for."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

Start: TypeAlias = Literal["Latest", "Earliest"] | int
DEFAULT_LIMIT, MOST_MESSAGES = 100, 1000
# What a topic has if the statement does not say (K28).
RETENTION_SECONDS, RETENTION_MAX_BYTES = 604_800, 1_073_741_824
MOST_PARTITIONS = 128
MOST_GROUP_LETTERS = 255


class TopicSqlError(Exception):
    """A statement that is refused, in PostgreSQL's terms."""

    def __init__(self, words: str, place: int | None = None, *, sqlstate: str = "42601", hint: str = "") -> None:
        super().__init__(words)
        self.words, self.place, self.sqlstate, self.hint = words, place, sqlstate, hint


class Define(Struct, frozen=True):
    """CREATE, ALTER, DROP or CLEAR TOPIC: carried out by PostgreSQL in the client's transaction."""

    do: str
    topic: str
    # What the procedure _tidewire_topics.statement is told, beside the places of the words.
    asked: dict[str, Any]
    places: dict[str, int]


class ShowTopics(Struct, frozen=True):
    pass


class Consume(Struct, frozen=True, kw_only=True):
    topic: str
    group: str | None = None
    start: Start = "Latest"
    # None: the default, which the text did not say.
    limit: int | None = None
    partition: int | None = None
    place: int = 0


class Ack(Struct, frozen=True, kw_only=True):
    topic: str
    group: str
    partition: int = 0
    upto: int
    place: int = 0


class Reset(Struct, frozen=True, kw_only=True):
    topic: str
    group: str
    # None: all of them.
    partition: int | None = None
    to: int
    place: int = 0


# Carried out by the gateway itself, outside of any transaction.
Carried: TypeAlias = Consume | Ack | Reset
Statement: TypeAlias = Define | ShowTopics | Carried
