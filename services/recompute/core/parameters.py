"""Parameter values in canonical form, without asking PostgreSQL where the given text already is canonical."""

import re
from collections.abc import Callable, Mapping, Sequence

from proto.rows import ResultRow
from services.recompute.core.catalog import PgType

_INTEGER = re.compile(rb"(?:0|-?[1-9][0-9]{0,17})")
_UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BITS = {"int2": 16, "int4": 32, "int8": 64}


def _is_integer(bits: int) -> Callable[[bytes], bool]:
    return lambda text: bool(_INTEGER.fullmatch(text)) and -(1 << bits - 1) <= int(text) < 1 << bits - 1


_KNOWN: Mapping[str, Callable[[bytes], bool]] = {
    **{name: _is_integer(bits) for name, bits in _BITS.items()},
    "text": lambda text: True,
    "bool": lambda text: text in (b"t", b"f"),
    "uuid": lambda text: bool(_UUID.fullmatch(text)),
}


def canonical(types: Sequence[PgType], values: ResultRow) -> ResultRow | None:
    """The values if all are in the form that PostgreSQL prints; None if PostgreSQL must be asked."""
    for type_, value in zip(types, values, strict=True):
        if value is None:
            continue
        known = _KNOWN.get(type_.name)
        if known is None or not known(value) or not _is_utf8(value):
            return None
    return values


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
