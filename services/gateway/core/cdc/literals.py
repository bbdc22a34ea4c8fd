"""Typed literals (`{"t": …}`) and plain JSON for PostgreSQL's text, and back (S9, S14).

Nothing is rounded and nothing made up: what JSON cannot say as a number stays PostgreSQL's text.
"""

import base64
import binascii
import math
from collections.abc import Callable
from typing import Any

import orjson

from services.gateway.core.cdc.types import Family
from services.gateway.errors import RpcRefused

Show = Callable[[bytes], Any]

_BREAKS = bytes.maketrans(b"\r\n", b"  ")


def _text(value: bytes) -> str:
    return value.decode(errors="replace")


def _float(value: bytes) -> float | str:
    number = float(value)
    return number if math.isfinite(number) else _text(value)


def _json(value: bytes) -> orjson.Fragment:
    # As it is; outside of strings, where alone they can stand, line breaks mean nothing, and in SSE they would.
    return orjson.Fragment(value.translate(_BREAKS))


def _moment(value: bytes) -> str:
    """2026-01-18 12:34:56.789+00 as 2026-01-18T12:34:56.789Z; infinity and years before Christ stay as they are."""
    text = _text(value)
    if not text[:1].isdigit() or text.endswith("BC"):
        return text
    text = text.replace(" ", "T", 1)
    return text.removesuffix("+00") + "Z" if text.endswith("+00") else text


def _bytes(value: bytes) -> str:
    return base64.b64encode(bytes.fromhex(_text(value).removeprefix("\\x"))).decode()


PLAIN: dict[Family, Show] = {
    Family.BOOL: lambda value: value == b"t",
    Family.SIGNED: int,
    Family.UNSIGNED: int,
    Family.FLOAT: _float,
    Family.DECIMAL: _text,
    Family.BYTES: _bytes,
    Family.JSON: _json,
    Family.DATE: _text,
    Family.TIME: _text,
    Family.TIME_ZONED: _text,
    Family.MOMENT: _moment,
    Family.MOMENT_ZONED: _moment,
    Family.UUID: _text,
    Family.PADDED: _text,
    Family.TEXT: _text,
    Family.OTHER: _text,
}
# The tag, and the key that the value stands under.
_TAGS: dict[Family, tuple[str, str]] = {
    Family.BYTES: ("bytes", "b64"),
    Family.DATE: ("date", "iso"),
    Family.TIME: ("time", "iso"),
    Family.TIME_ZONED: ("time", "iso"),
    Family.MOMENT: ("datetime", "iso"),
    Family.MOMENT_ZONED: ("datetime", "iso"),
    Family.PADDED: ("str", "v"),
    Family.OTHER: ("str", "v"),
}
PLAIN_NULL = None
TYPED_NULL = {"t": "null"}


def _tagged(family: Family) -> Show:
    tag, key = _TAGS.get(family, (family.value, "v"))
    show = PLAIN[family]
    return lambda value: {"t": tag, key: show(value)}


TYPED: dict[Family, Show] = {family: _tagged(family) for family in Family}


def text_of(literal: Any) -> str | None:
    """What a typed literal says, as text that PostgreSQL can read; None for null."""
    if not isinstance(literal, dict) or not isinstance(literal.get("t"), str):
        raise _bad('a typed literal such as {"t": "i64", "v": 1} is expected')
    tag = literal["t"]
    if tag == "null":
        return None
    read = _READERS.get(tag)
    if read is None:
        raise _bad(f"unknown type of literal {tag!r}")
    key = {"bytes": "b64", "date": "iso", "time": "iso", "datetime": "iso"}.get(tag, "v")
    if key not in literal:
        raise _bad(f"a literal of type {tag!r} needs {key!r}")
    text = read(tag, literal[key])
    if "\0" in text:
        raise _bad("a literal holds a NUL, which no text of PostgreSQL may")
    return text


def _bad(message: str) -> RpcRefused:
    return RpcRefused("invalid_request", message)


def _read_bool(tag: str, value: Any) -> str:
    if not isinstance(value, bool):
        raise _bad("a literal of type 'bool' needs true or false")
    return "true" if value else "false"


def _read_integer(tag: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad(f"a literal of type {tag!r} needs an integer")
    least, most = (0, 2**64 - 1) if tag == "u64" else (-(2**63), 2**63 - 1)
    if not least <= value <= most:
        raise _bad(f"{value} is no {tag}")
    return str(value)


def _read_float(tag: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _bad("a literal of type 'f64' needs a number")
    try:
        return repr(float(value))
    except (ValueError, OverflowError):
        raise _bad("a literal of type 'f64' needs a number") from None


def _read_text(tag: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _bad(f"a literal of type {tag!r} needs a string")
    return value


def _read_bytes(tag: str, value: Any) -> str:
    try:
        return "\\x" + base64.b64decode(value, validate=True).hex()
    except (TypeError, ValueError, binascii.Error):
        raise _bad("a literal of type 'bytes' needs base64") from None


def _read_json(tag: str, value: Any) -> str:
    return orjson.dumps(value).decode()


_READERS: dict[str, Callable[[str, Any], str]] = {
    "bool": _read_bool,
    "i64": _read_integer,
    "u64": _read_integer,
    "f64": _read_float,
    "dec": _read_text,
    "str": _read_text,
    "uuid": _read_text,
    "bytes": _read_bytes,
    "json": _read_json,
    "date": _read_text,
    "time": _read_text,
    "datetime": _read_text,
}
