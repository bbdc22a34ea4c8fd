"""Which rows a reader of `changes` may pass over undecoded: those of tables that nobody reads, but for the first."""

from collections.abc import Callable
from struct import Struct as Packed

from proto.pgoutput.messages import Begin

# Insert, Update and Delete begin with the oid of their table.
ROW_TYPES = frozenset(b"IUD")
_OID = Packed("!I")


class UnreadTables:
    """Of each table that nobody reads one row of a transaction comes out, to tell that it was touched."""

    def __init__(self, is_read: Callable[[int], bool] | None) -> None:
        self._is_read = is_read
        # The tables whose row has come out, in the transaction that is open.
        self._touched: set[int] = set()
        self._begin: Begin | None = None

    def passes_over(self, begin: Begin | None, entries: bytes, oid_at: int) -> bool:
        """Whether the row of the transaction, whose table's oid stands there, is only to be counted."""
        if self._is_read is None or begin is None:
            return False
        if self._begin is not begin:
            if self._begin != begin:
                self._touched.clear()
            self._begin = begin
        (oid,) = _OID.unpack_from(entries, oid_at)
        if oid in self._touched:
            return True
        if not self._is_read(oid):
            self._touched.add(oid)
        return False

    def forget(self) -> None:
        """Where a history begins the open transaction is dropped, and may come again."""
        self._begin = None
