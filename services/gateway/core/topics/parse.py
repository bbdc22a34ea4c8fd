"""Reads topic SQL: all spellings of decisions 13 and 27."""

from collections.abc import Callable
from typing import Any

from services.gateway.core.topics.statements import (
    MOST_GROUP_LETTERS,
    MOST_PARTITIONS,
    RETENTION_MAX_BYTES,
    RETENTION_SECONDS,
    Ack,
    Consume,
    Define,
    Reset,
    ShowTopics,
    Start,
    Statement,
    TopicSqlError,
)
from services.gateway.core.topics.tokens import Kind, Token, tokens

OPERATIONS = {"INSERT": "Insert", "UPDATE": "Update", "DELETE": "Delete"}
PAYLOADS = {"key": "Key", "full": "Full", "diff": "Diff"}
MOST_OFFSET = 2**63 - 1
# Words that begin a subquery; none of them can be the name of a column without quotes.
_SUBQUERIES = frozenset(("SELECT", "TABLE", "WITH", "VALUES"))


def parse(text: str) -> Statement:
    """One statement, which may end with a semicolon; raises TopicSqlError."""
    reader = _Reader(text)
    first = reader.next()
    statement = _FIRST.get(first.upper, _unknown)(reader)
    reader.take_sign(";")
    if reader.here.kind is not Kind.END:
        raise reader.unexpected()
    return statement


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self._tokens, self._at = text, list(tokens(text)), 0

    @property
    def here(self) -> Token:
        return self._tokens[self._at]

    def next(self) -> Token:
        token = self.here
        if token.kind is not Kind.END:
            self._at += 1
        return token

    def unexpected(self) -> TopicSqlError:
        if self.here.kind is Kind.END:
            return TopicSqlError("syntax error at end of input", self.here.place)
        return TopicSqlError(f'syntax error at or near "{self.here.raw}"', self.here.place)

    def take(self, *words: str) -> bool:
        """Whether these words come next; then they are taken."""
        ahead = self._tokens[self._at : self._at + len(words)]
        if [token.upper for token in ahead] != list(words):
            return False
        self._at += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                raise self.unexpected()

    def take_sign(self, sign: str) -> bool:
        if self.here.kind is Kind.OTHER and self.here.raw == sign:
            self._at += 1
            return True
        return False

    def expect_sign(self, sign: str) -> None:
        if not self.take_sign(sign):
            raise self.unexpected()

    def name_part(self) -> str:
        token = self.here
        if token.kind not in (Kind.WORD, Kind.QUOTED):
            raise self.unexpected()
        if "." in token.value:
            raise TopicSqlError("a name must not contain a dot inside of quotes", token.place)
        self._at += 1
        return token.value

    def name(self) -> tuple[list[str], int]:
        """The parts of a name, one or two, and its place."""
        place, parts = self.here.place, [self.name_part()]
        while self.take_sign("."):
            parts.append(self.name_part())
        if len(parts) > 2:
            raise TopicSqlError(f"improper qualified name (too many dotted names): {'.'.join(parts)}", place)
        return parts, place

    def topic(self) -> tuple[str, int]:
        parts, place = self.name()
        return ".".join(parts), place

    def number(self, what: str = "offset") -> int:
        token = self.here
        if token.kind is not Kind.NUMBER or len(token.raw) > 19 or int(token.raw) > MOST_OFFSET:
            raise TopicSqlError(f"Invalid {what} '{token.raw}'. Must be a number", token.place)
        self._at += 1
        return int(token.raw)

    def label(self) -> str:
        """A group or an option: quoted either way, or bare."""
        token = self.here
        if token.kind not in (Kind.WORD, Kind.QUOTED, Kind.TEXT):
            raise self.unexpected()
        self._at += 1
        return token.raw if token.kind is Kind.WORD else token.value

    def group(self) -> str:
        token, group = self.here, self.label()
        if not group.strip() or len(group) > MOST_GROUP_LETTERS:
            raise TopicSqlError(f"a group's name has 1 to {MOST_GROUP_LETTERS} letters", token.place)
        return group


def _create(reader: _Reader) -> Define:
    reader.expect("TOPIC")
    if_not_exists = reader.take("IF")
    if if_not_exists:
        reader.expect("NOT", "EXISTS")
    parts, place = reader.name()
    if len(parts) != 2:
        raise TopicSqlError("Topic name must be namespace-qualified: <namespace>.<topic>", place)
    partitions = 1
    if reader.take("PARTITIONS"):
        token = reader.here
        partitions = reader.number("partition count")
        if not 1 <= partitions <= MOST_PARTITIONS:
            raise TopicSqlError(
                f"Invalid partition count '{partitions}'. Must be from 1 to {MOST_PARTITIONS}", token.place
            )
    asked: dict[str, Any] = {
        "schema": parts[0],
        "if_not_exists": if_not_exists,
        "partitions": partitions,
        "retention_seconds": RETENTION_SECONDS,
        "retention_max_bytes": RETENTION_MAX_BYTES,
    }
    if reader.take("WITH"):
        asked |= _retention(reader)
    return Define("CREATE TOPIC", ".".join(parts), asked, {"topic": place})


def _retention(reader: _Reader) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    reader.expect_sign("(")
    while True:
        option = reader.here
        name = reader.label().lower()
        if name not in ("retention_seconds", "retention_max_bytes"):
            raise TopicSqlError(f'unrecognized topic option "{name}"', option.place)
        if name in found:
            raise TopicSqlError(f'conflicting or redundant options: "{name}"', option.place)
        reader.expect_sign("=")
        value = reader.here
        found[name] = None if reader.take("NULL") else reader.number(name)
        if found[name] == 0:
            raise TopicSqlError(f"{name} must be greater than 0, or NULL for no limit", value.place)
        if not reader.take_sign(","):
            break
    reader.expect_sign(")")
    return found


def _alter(reader: _Reader) -> Define:
    reader.expect("TOPIC")
    topic, place = reader.topic()
    places: dict[str, int] = {"topic": place}
    asked: dict[str, Any]
    if reader.take("ADD", "SOURCE"):
        asked = _source(reader, topic, places)
        asked |= _route(reader, places) | {"action": "add source"}
    elif reader.take("DROP", "SOURCE"):
        asked = _source(reader, topic, places) | {"action": "drop source", "op": None}
        if reader.take("ON"):
            asked["op"] = _operation(reader)
    elif reader.take("SET", "ALIAS"):
        places["alias"] = reader.here.place
        alias = reader.label() if reader.here.kind is Kind.TEXT else reader.topic()[0]
        if not alias.strip() or len(alias) > MOST_GROUP_LETTERS:
            raise TopicSqlError(f"an alias has 1 to {MOST_GROUP_LETTERS} letters", places["alias"])
        asked = {"action": "set alias", "alias": alias}
    elif reader.take("SET", "RETENTION"):
        reader.expect("WITH")
        asked = {"action": "set retention", **_retention(reader)}
    elif reader.take("CLEAR", "RETENTION"):
        asked = {"action": "clear retention"}
    else:
        raise reader.unexpected()
    return Define("ALTER TOPIC", topic, asked, places)


def _source(reader: _Reader, topic: str, places: dict[str, int]) -> dict[str, Any]:
    """A table; without a schema it is in the topic's."""
    parts, places["source"] = reader.name()
    if len(parts) == 1:
        parts = [topic.partition(".")[0], *parts]
    return {"source_schema": parts[0], "source_table": parts[1]}


def _operation(reader: _Reader) -> str:
    token = reader.here
    if token.upper not in OPERATIONS:
        raise TopicSqlError(f"Invalid operation '{token.raw}'. Expected INSERT, UPDATE, or DELETE", token.place)
    reader.next()
    return OPERATIONS[token.upper]


def _route(reader: _Reader, places: dict[str, int]) -> dict[str, Any]:
    reader.expect("ON")
    asked: dict[str, Any] = {
        "op": _operation(reader),
        "payload_mode": "Key",
        "filter_expr": None,
        "partition_key": None,
    }
    if reader.take("WHERE"):
        places["filter"] = reader.here.place
        asked["filter_expr"] = _filter(reader)
    if reader.take("PARTITION", "BY"):
        reader.expect_sign("(")
        places["partition_key"] = reader.here.place
        asked["partition_key"] = reader.name_part()
        reader.expect_sign(")")
    if reader.take("WITH"):
        reader.expect_sign("(")
        option = reader.here
        if reader.label().lower() != "payload":
            raise TopicSqlError(f'unrecognized route option "{option.value}"', option.place)
        reader.expect_sign("=")
        token = reader.here
        mode = reader.label()
        if mode.lower() not in PAYLOADS:
            raise TopicSqlError(f"Invalid payload mode '{mode}'. Expected 'key', 'full', or 'diff'", token.place)
        asked["payload_mode"] = PAYLOADS[mode.lower()]
        reader.expect_sign(")")
    return asked


def _filter(reader: _Reader) -> str:
    """The expression's text, up to PARTITION BY, WITH or the end; whether it is one is PostgreSQL's to say."""
    first = last = reader.here
    depth = 0
    while reader.here.kind is not Kind.END:
        token = reader.here
        if depth == 0 and (token.upper == "WITH" or (token.upper == "PARTITION") or token.raw == ";"):
            break
        if token.upper in _SUBQUERIES:
            raise TopicSqlError("a route's WHERE cannot contain a subquery", token.place, sqlstate="0A000")
        if token.kind is Kind.OTHER and token.raw in ("'", '"', "$", ";"):
            raise reader.unexpected()
        depth += (token.raw == "(") - (token.raw == ")") if token.kind is Kind.OTHER else 0
        if depth < 0:
            raise reader.unexpected()
        last = reader.next()
    if depth or (last.place == first.place and reader.here is first):
        raise reader.unexpected()
    return reader.text[first.place - 1 : last.place - 1 + len(last.raw)]


def _drop(reader: _Reader) -> Define:
    reader.expect("TOPIC")
    if_exists = reader.take("IF")
    if if_exists:
        reader.expect("EXISTS")
    topic, place = reader.topic()
    return Define("DROP TOPIC", topic, {"if_exists": if_exists}, {"topic": place})


def _clear(reader: _Reader) -> Define:
    reader.expect("TOPIC")
    topic, place = reader.topic()
    return Define("CLEAR TOPIC", topic, {}, {"topic": place})


def _show(reader: _Reader) -> ShowTopics:
    reader.expect("TOPICS")
    return ShowTopics()


def _consume(reader: _Reader) -> Consume:
    reader.expect("FROM")
    topic, place = reader.topic()
    group, start, limit, partition = None, None, None, None
    while True:
        if group is None and reader.take("GROUP"):
            group = reader.group()
        elif partition is None and reader.take("PARTITION"):
            partition = reader.number("partition")
        elif start is None and (reader.take("FROM") or reader.take("START")):
            start = _start(reader)
        elif limit is None and reader.take("LIMIT"):
            limit = reader.number("limit")
        else:
            break
    return Consume(
        topic=topic,
        group=group,
        start="Latest" if start is None else start,
        limit=limit,
        partition=partition,
        place=place,
    )


def _start(reader: _Reader) -> Start:
    if reader.take("LATEST"):
        return "Latest"
    if reader.take("EARLIEST"):
        return "Earliest"
    reader.take("OFFSET")
    return reader.number()


def _ack(reader: _Reader) -> Ack:
    topic, place = reader.topic()
    if not reader.take("GROUP"):
        raise TopicSqlError("ACK requires GROUP clause", reader.here.place)
    group = reader.group()
    partition = reader.number("partition") if reader.take("PARTITION") else 0
    if not reader.take("UPTO", "OFFSET"):
        raise TopicSqlError("ACK requires UPTO OFFSET clause", reader.here.place)
    return Ack(topic=topic, group=group, partition=partition, upto=reader.number(), place=place)


def _reset(reader: _Reader) -> Reset:
    reader.expect("CONSUMER", "GROUP")
    group = reader.group()
    reader.expect("ON")
    topic, place = reader.topic()
    partition = reader.number("partition") if reader.take("PARTITION") else None
    reader.expect("TO")
    reader.take("OFFSET")
    return Reset(topic=topic, group=group, partition=partition, to=reader.number(), place=place)


def _unknown(reader: _Reader) -> Statement:
    raise TopicSqlError("this is no statement about topics", 1)


_FIRST: dict[str, Callable[[_Reader], Statement]] = {
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "CLEAR": _clear,
    "SHOW": _show,
    "CONSUME": _consume,
    "ACK": _ack,
    "RESET": _reset,
}
