"""PostgreSQL's text of a value, as PostgreSQL's own to_json prints it.

Nothing is computed: numbers go over digit by digit. What the text does not tell, the type's shape does.
"""

import re
from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Literal

from msgspec import Struct

Form = Literal["bool", "number", "timestamp", "timestamptz", "json", "array", "vector", "composite", "text"]

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_ZONE = re.compile(r"[+-]\d\d(?::\d\d)*(?= BC$|$)")
_SHORT_ZONE = 3
_FORMS: Mapping[int, Form] = {
    16: "bool",
    **dict.fromkeys((20, 21, 23, 700, 701, 1700), "number"),
    1114: "timestamp",
    1184: "timestamptz",
    114: "json",
    3802: "json",
    22: "vector",
    30: "vector",
}
_VECTOR_ELEMENTS: Mapping[int, Form] = {22: "number", 30: "text"}


class TypeShape(Struct, frozen=True):
    """What must be known of a type to print its values; of a domain it is the shape of its base type."""

    form: Form
    element: "TypeShape | None" = None
    delimiter: str = ","
    # Of a composite type: names and shapes of the attributes that are not dropped.
    attributes: "tuple[tuple[str, TypeShape], ...]" = ()


TEXT = TypeShape("text")


def scalar(oid: int) -> TypeShape:
    """The shape of a type that is neither an array, a composite type nor a domain."""
    form = _FORMS.get(oid, "text")
    return TypeShape("vector", TypeShape(_VECTOR_ELEMENTS[oid])) if form == "vector" else TypeShape(form)


def json_value(text: str | None, shape: TypeShape) -> str:
    """The value as to_json prints it."""
    if text is None:
        return "null"
    match shape.form:
        case "bool":
            return "true" if text in ("t", "true") else "false"
        case "number":
            return text if _NUMBER.fullmatch(text) else encode_basestring(text)
        case "json":
            return text
        case "timestamp":
            return f'"{text.replace(" ", "T", 1)}"' if text[-1] != "y" else encode_basestring(text)
        case "timestamptz":
            return encode_basestring(_moment(text))
        case "array":
            assert shape.element is not None
            return _array(text, shape.element, shape.delimiter)
        case "vector":
            assert shape.element is not None
            return "[" + ",".join(json_value(one, shape.element) for one in text.split()) + "]"
        case "composite":
            fields = zip(shape.attributes, _fields(text), strict=True)
            return (
                "{" + ",".join(f"{encode_basestring(name)}:{json_value(one, of)}" for (name, of), one in fields) + "}"
            )
    return encode_basestring(text)


def _moment(text: str) -> str:
    """With a T, and with the minutes of the zone, as XML Schema writes it."""
    if text.endswith("infinity"):
        return text
    text = text.replace(" ", "T", 1)
    return _ZONE.sub(lambda found: found[0] + (":00" if len(found[0]) == _SHORT_ZONE else ""), text)


def _array(text: str, element: TypeShape, delimiter: str) -> str:
    at = text.index("=") + 1 if text.startswith("[") else 0
    parts: list[str] = []
    stop = f'{{}}"\\{delimiter}'
    while at < len(text):
        letter = text[at]
        if letter in "{}":
            parts.append("[" if letter == "{" else "]")
            at += 1
        elif letter == delimiter:
            parts.append(",")
            at += 1
        elif letter == '"':
            value, at = _quoted(text, at + 1)
            parts.append(json_value(value, element))
        else:
            end = at
            while end < len(text) and text[end] not in stop:
                end += 1
            bare, at = text[at:end], end
            parts.append(json_value(None if bare.upper() == "NULL" else bare, element))
    return "".join(parts)


def _fields(text: str) -> list[str | None]:
    """The fields of a composite value: unquoted and empty is NULL."""
    found: list[str | None] = []
    at = 1
    while at < len(text):
        if text[at] == '"':
            value, at = _quoted(text, at + 1, doubled=True)
            found.append(value)
        else:
            end = next(place for place in range(at, len(text)) if text[place] in ",)")
            found.append(text[at:end] or None)
            at = end
        at += 1
    return found


def _quoted(text: str, at: int, *, doubled: bool = False) -> tuple[str, int]:
    """A quoted value from behind its quote, and the place behind it. `doubled`: a quote stands for itself twice."""
    letters: list[str] = []
    while True:
        letter = text[at]
        if letter == "\\":
            letters.append(text[at + 1])
            at += 2
        elif letter == '"':
            if not (doubled and text[at + 1 : at + 2] == '"'):
                return "".join(letters), at + 1
            letters.append('"')
            at += 2
        else:
            letters.append(letter)
            at += 1
