"""What the catalog says about a table, as far as filters and events need it."""

from msgspec import Struct

from services.gateway.core.cdc.keys import KeyColumn, equality_of, order_of
from services.gateway.core.cdc.subscription import KeyFilter, Wishes
from services.gateway.errors import RpcRefused


class Table(Struct, frozen=True, kw_only=True):
    oid: int
    schema: str
    name: str
    columns: frozenset[str]
    # In the order of the key.
    key: tuple[KeyColumn, ...] = ()
    # REPLICA IDENTITY FULL, or the table of a kind that always has it: the log has whole old rows.
    has_old_rows: bool = False
    # The tables whose changes are its changes: itself, or its partitions and children.
    members: frozenset[int] = frozenset()
    # These and itself, and tables between them that have no rows of their own.
    family: frozenset[int] = frozenset()
    # The members that may have columns which the table has not: children that are no partitions.
    wider: frozenset[int] = frozenset()
    # It has partitions or children, or had some.
    has_parts: bool = False
    # The log has the keys of old rows: the identity of every member has the key's columns.
    has_old_keys: bool = True
    # Of its changes none or not all come into the log: unlogged, taken out, or PostgreSQL's own.
    is_silent: bool = False
    # Of the types of its columns that are domains: the type below.
    base_types: dict[int, int] = {}

    @property
    def shown(self) -> str:
        return self.name if self.schema == "public" else f"{self.schema}.{self.name}"


def judge_told(table: Table, wishes: Wishes) -> None:
    """Refuse what the log does not tell, as the table is now."""
    name = table.shown
    if table.is_silent:
        raise RpcRefused(
            "precondition_failed",
            f"changes of {name} are not in the log: it is unlogged, has unlogged parts, was taken out by "
            "_tidewire.untrack, or is one of PostgreSQL's own tables",
        )
    if (wishes.pk is not None or wishes.has_range) and table.key and not table.has_old_keys:
        raise RpcRefused(
            "precondition_failed",
            f"the log has old rows of {name} by another index than the primary key: filters by key need "
            f"ALTER TABLE {name} REPLICA IDENTITY DEFAULT, or FULL",
        )


def judge(table: Table, wishes: Wishes, shown_name: str) -> None:
    """What the original refuses, in its words; then what cannot be told exactly."""
    judge_columns(table.columns, wishes)
    _judge_pk(table, wishes)
    _judge_range(table, wishes)
    if wishes.needs_old_rows and not table.has_old_rows:
        raise RpcRefused(
            "precondition_failed",
            f"the log has old rows of {shown_name} only by their key: columns and include.before need "
            f"ALTER TABLE {shown_name} REPLICA IDENTITY FULL",
        )


def judge_columns(known: frozenset[str], wishes: Wishes) -> None:
    for column in wishes.columns:
        if column not in known:
            raise _bad(f"unknown cdc column filter {column}")


def _judge_pk(table: Table, wishes: Wishes) -> None:
    if wishes.pk is None:
        return
    if not table.key:
        raise _bad("cdc pk filter requires a table primary key")
    if len(wishes.pk) != len(table.key):
        raise _bad(f"cdc pk filter length {len(wishes.pk)} does not match primary key width {len(table.key)}")
    for column in table.key:
        if equality_of(column) is None:
            raise _bad(f"cdc pk filter cannot compare keys of type {column.type_name}")


def _judge_range(table: Table, wishes: Wishes) -> None:
    if not wishes.has_range:
        return
    if not table.key:
        raise _bad("cdc pk_range filter requires a table primary key")
    if len(table.key) != 1:
        raise _bad("cdc pk_range filter requires a single-column primary key")
    if order_of(table.key[0]) is None:
        raise _bad(
            f"cdc pk_range filter cannot order keys of type {table.key[0].type_name} "
            "(texts only by a collation that orders by bytes, such as C)"
        )


def judge_bounds(table: Table, keys: KeyFilter) -> None:
    order = order_of(table.key[0]) if len(table.key) == 1 else None
    if (
        order is not None
        and keys.lower is not None
        and keys.upper is not None
        and order(keys.lower.encode()) > order(keys.upper.encode())
    ):
        raise _bad("cdc pk_range lower_bound must be <= upper_bound")


def _bad(message: str) -> RpcRefused:
    return RpcRefused("invalid_request", message)
