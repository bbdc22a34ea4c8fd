"""What the log says of durable topics beside rows: their definitions, who wrote, and which rows a TRUNCATE took."""

from typing import TypeAlias

from msgspec import Struct

from proto.positions import Lsn

TOPICS_PREFIX = "tidewire.topics"
ACTOR_PREFIX = "tidewire.actor"
TRUNCATED_PREFIX = "tidewire.truncated"


class TopicDefined(Struct, frozen=True, kw_only=True, tag=True):
    """A durable topic was made, altered, cleared or dropped: the JSON says what it is from this commit on."""

    commit_lsn: Lsn
    ordinal: int
    content: bytes


class ActorNamed(Struct, frozen=True, kw_only=True, tag=True):
    """Who makes the transaction's changes, by his own word (decision 24); nobody has verified it."""

    commit_lsn: Lsn
    ordinal: int
    content: bytes


class RowsTruncated(Struct, frozen=True, kw_only=True, tag=True):
    """Rows that a TRUNCATE behind it takes away, of a table with a route ON DELETE."""

    commit_lsn: Lsn
    ordinal: int
    content: bytes


TopicMark: TypeAlias = TopicDefined | ActorNamed | RowsTruncated
TOPIC_MARKS: dict[str, type[TopicDefined] | type[ActorNamed] | type[RowsTruncated]] = {
    TOPICS_PREFIX: TopicDefined,
    ACTOR_PREFIX: ActorNamed,
    TRUNCATED_PREFIX: RowsTruncated,
}
