"""Positions and identities: where something stands in PostgreSQL's WAL and in our log."""

from typing import NewType

Lsn = NewType("Lsn", int)
Seq = NewType("Seq", int)
Xid = NewType("Xid", int)

ZERO_LSN = Lsn(0)


def format_lsn(lsn: Lsn) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> Lsn:
    high, separator, low = text.partition("/")
    if not separator:
        raise ValueError(f"{text!r} is not an LSN: expected two hexadecimal numbers as 16/B374D848")
    return Lsn((int(high, 16) << 32) | int(low, 16))
