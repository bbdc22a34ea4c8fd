"""What a subscription tells: its first result, then what changed, a record for each message."""

from dataclasses import dataclass
from typing import Any, TypeAlias

# Values are text as PostgreSQL prints them, or what the subscription's decoders make of it; NULL is None.
Row: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Initial:
    """The whole result, once, before any change. `lsn` is where it stands in the database's log, if asked for."""

    rows: tuple[Row, ...]
    lsn: str | None = None


@dataclass(frozen=True, slots=True)
class Inserted:
    rows: tuple[Row, ...]
    lsn: str | None = None


@dataclass(frozen=True, slots=True)
class Replaced:
    """A row before and after; its key is the same."""

    old: Row
    new: Row


@dataclass(frozen=True, slots=True)
class Updated:
    rows: tuple[Replaced, ...]
    lsn: str | None = None


@dataclass(frozen=True, slots=True)
class Deleted:
    rows: tuple[Row, ...]
    lsn: str | None = None


@dataclass(frozen=True, slots=True)
class Renewed:
    """The whole result came anew: `inserted` and `deleted` are how it differs from what was held before.

    `because` says why: the connection was lost, the server sent the whole result, or the reader was behind.
    """

    rows: tuple[Row, ...]
    inserted: tuple[Row, ...]
    deleted: tuple[Row, ...]
    because: str
    lsn: str | None = None


Change: TypeAlias = Initial | Inserted | Updated | Deleted | Renewed
