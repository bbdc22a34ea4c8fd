"""PostgreSQL's node text (outfuncs.c) as plain nodes, lists and words; nothing is lost, so that it prints back.

The text is read in one pass with a stack of our own: neither its length nor its nesting can exhaust Python's.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

# outToken() escapes blanks, brackets and backslashes inside a word, so that a word ends at the first bare one.
_TOKEN = re.compile(r"[(){}]|(?:[^ \n\t(){}\\]|\\[\s\S])+")
_ESCAPED = re.compile(r"\\([\s\S])")
NULL = "<>"
_LIST_KINDS = frozenset("iobx")
_INTEGER = re.compile(r"-?\d+")
_CLOSING = {"{": "}", "(": ")"}


class BadText(ValueError):
    """The text is not what outfuncs.c writes."""


class Node(Struct, frozen=True):
    """`{LABEL :field value …}`."""

    label: str
    fields: tuple[tuple[str, Any], ...]


class Listed(Struct, frozen=True):
    """`(…)`; `kind` is i, o or x for numbers, b for a set of numbers, empty for nodes and words."""

    kind: str
    items: tuple[Any, ...]


class Datum(Struct, frozen=True):
    """`length [ byte … ]`: the bytes of a value as they lie in the server's memory, signed as printed."""

    length: str
    items: tuple[str, ...]


# A word is kept as it is printed, escapes included.
Value: TypeAlias = Node | Listed | Datum | str
T = TypeVar("T")


def read(text: str) -> Value:
    """The one value that the text is; BadText if it is none."""
    return read_as(text, lambda label, fields, _depth: Node(label, fields))


def read_as(text: str, make: Callable[[str, tuple[tuple[str, Any], ...], int], T]) -> T | Listed | Datum | str:
    """As read(), with nodes of the caller's own: each is made once all that it holds is made."""
    tokens = (found[0] for found in _TOKEN.finditer(text))
    frames: list[_Frame] = []
    for token in tokens:
        if token in _CLOSING:
            frames.append(_Frame(token))
            continue
        value: Any = token
        if token in ("}", ")"):
            if not frames or _CLOSING[frames[-1].opening] != token:
                raise BadText(f"unexpected {token}")
            closed = frames.pop()
            value = closed.listed() if token == ")" else make(closed.label, closed.node_fields(), len(frames))
        elif frames and frames[-1].opening == "{" and frames[-1].takes(token, tokens):
            continue
        if not frames:
            if next(tokens, None) is not None:
                raise BadText("more than one value")
            return value  # type: ignore[no-any-return]
        frames[-1].add(value)
    raise BadText("the text ends too early")


class _Frame:
    """A node or a list that is not closed yet."""

    def __init__(self, opening: str) -> None:
        self.opening = opening
        self.label = ""
        self._fields: dict[str, Any] = {}
        self._items: list[Any] = []
        self._name: str | None = None

    def takes(self, token: str, tokens: Iterator[str]) -> bool:
        """Whether a word of a node is its label, a field's name or the beginning of a datum, and no value yet."""
        if not self.label:
            self.label = token
            return True
        if self._name is None:
            if token == "[" and self._fields:
                self._take_datum(tokens)
                return True
            if not token.startswith(":") or token[1:] in self._fields:
                raise BadText(f"{token} where a field should begin")
            self._name = token[1:]
            return True
        return False

    def _take_datum(self, tokens: Iterator[str]) -> None:
        name = next(reversed(self._fields))
        length = self._fields[name]
        items = []
        for token in tokens:
            if token == "]":
                break
            items.append(token)
        if not isinstance(length, str) or not all(_INTEGER.fullmatch(item) for item in (length, *items)):
            raise BadText("a datum that is not made of numbers")
        self._fields[name] = Datum(length, tuple(items))

    def add(self, value: object) -> None:
        if self.opening == "(":
            self._items.append(value)
            return
        if self._name is None:
            raise BadText("a value without a field")
        self._fields[self._name] = value
        self._name = None

    def listed(self) -> Listed:
        items = self._items
        if items and isinstance(items[0], str) and items[0] in _LIST_KINDS:
            if not all(isinstance(item, str) and _INTEGER.fullmatch(item) for item in items[1:]):
                raise BadText("a list of numbers with something else in it")
            return Listed(items[0], tuple(items[1:]))
        return Listed("", tuple(items))

    def node_fields(self) -> tuple[tuple[str, Any], ...]:
        if not self.label or self._name is not None:
            raise BadText("a node that ends too early")
        return tuple(self._fields.items())


def written(value: Value) -> str:
    """The text that PostgreSQL printed."""
    parts: list[str] = []
    pending: list[Value | tuple[str]] = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, tuple):
            parts.append(one[0])
        elif isinstance(one, str):
            parts.append(one)
        elif isinstance(one, Datum):
            parts.append(" ".join((one.length, "[", *one.items, "]")))
        elif isinstance(one, Listed):
            parts.append("(" + one.kind)
            pending.append((")",))
            for number, item in reversed(list(enumerate(one.items))):
                pending.append(item)
                if number or one.kind:
                    pending.append((" ",))
        else:
            parts.append("{" + one.label)
            pending.append(("}",))
            for name, held in reversed(one.fields):
                pending += [held, (f" :{name} ",)]
    return "".join(parts)


def word(token: str) -> str | None:
    """What a word says: None for NULL, escapes and the quotes of a String node taken away."""
    if token == NULL:
        return None
    if len(token) > 1 and token[0] == token[-1] == '"':
        token = token[1:-1]
    return _ESCAPED.sub(r"\1", token)
