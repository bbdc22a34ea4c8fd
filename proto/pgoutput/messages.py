"""The messages of pgoutput, protocol version 1, as PostgreSQL's manual names them (section 54.9)."""

from enum import Enum
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from proto.positions import Lsn, Xid


class Absent(Enum):
    """A column whose value the log does not carry."""

    VALUE = "absent"


ABSENT: Final = Absent.VALUE

Value: TypeAlias = bytes | Literal[Absent.VALUE] | None
Row: TypeAlias = tuple[Value, ...]


class Column(Struct, frozen=True):
    name: str
    type_oid: int
    type_modifier: int
    is_identity: bool


class Begin(Struct, frozen=True, tag=True):
    commit_lsn: Lsn
    commit_time_us: int
    xid: Xid


class Commit(Struct, frozen=True, tag=True):
    commit_lsn: Lsn
    end_lsn: Lsn
    commit_time_us: int


class Origin(Struct, frozen=True, tag=True):
    commit_lsn: Lsn
    name: str


class Relation(Struct, frozen=True, tag=True):
    oid: int
    schema: str
    name: str
    identity: str  # pg_class.relreplident: d(efault), n(othing), f(ull), i(ndex)
    columns: tuple[Column, ...]

    @property
    def is_tracked(self) -> bool:
        """Identity NOTHING is how a table that is not tracked shows itself in the WAL.

        DEFAULT without a key is not that: so look the rows of CREATE TABLE AS, before the table gets its identity.
        """
        return self.identity != "n"


class Type(Struct, frozen=True, tag=True):
    oid: int
    schema: str
    name: str


class Insert(Struct, frozen=True, tag=True):
    relation: int
    after: Row


class Update(Struct, frozen=True, tag=True):
    """`before` is None when the identity did not change and is not FULL; as a key, only its identity columns count."""

    relation: int
    before: Row | None
    before_is_key: bool
    after: Row


class Delete(Struct, frozen=True, tag=True):
    relation: int
    before: Row
    before_is_key: bool


class Truncate(Struct, frozen=True, tag=True):
    relations: tuple[int, ...]
    cascade: bool
    restart_identity: bool


class LogicalMessage(Struct, frozen=True, tag=True):
    transactional: bool
    lsn: Lsn
    prefix: str
    content: bytes


class Unwritable(Struct, frozen=True, tag=True):
    """Ours, not PostgreSQL's: a row change that does not fit into the log, in the place of that change."""

    relation: int
    operation: str
    reason: str


PgOutputMessage: TypeAlias = (
    Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate | LogicalMessage | Unwritable
)
