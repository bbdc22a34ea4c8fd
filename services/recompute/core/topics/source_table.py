"""A table that routes read, as PostgreSQL's catalog describes it."""

from msgspec import Struct


class SourceTable(Struct, frozen=True, kw_only=True):
    oid: int
    schema: str
    name: str
    owner: str
    # The columns of the primary key, in its order.
    key: tuple[str, ...] = ()
    # The tables whose rows are its rows: itself, or its partitions.
    leaves: tuple[int, ...] = ()
    # The roles that may read all of it, bound by no policy (decision 19).
    readers: frozenset[str] = frozenset()


class SourceTables(Struct, frozen=True):
    """All that routes read now."""

    tables: dict[int, SourceTable] = {}
    # Of domains: the type below.
    base_types: dict[int, int] = {}

    def roots_of(self) -> dict[int, tuple[SourceTable, ...]]:
        """By the oid that a change in the log has: the tables that routes name."""
        roots: dict[int, tuple[SourceTable, ...]] = {}
        for table in self.tables.values():
            for leaf in table.leaves:
                roots[leaf] = (*roots.get(leaf, ()), table)
        return roots
