"""Recent DDL: a plan that was begun before it may be outdated."""

from collections import deque
from collections.abc import Mapping

from services.recompute.core.catalog import Table
from services.recompute.core.schema_marks import SchemaMark

MOST = 10_000


class RecentMarks:
    """DDL outdates a plan only if it names what the plan reads or depends on: unrelated DDL must not block it.

    After unrelated DDL the plan is used, and replaced by the one that the DDL asked for.
    """

    def __init__(self) -> None:
        self._marks: deque[tuple[float, SchemaMark]] = deque()
        self._forgotten_s = float("-inf")

    def add(self, read_s: float, mark: SchemaMark) -> None:
        if mark.is_blank or mark.oids:
            self._marks.append((read_s, mark))
        if len(self._marks) > MOST:
            self._forgotten_s, _ = self._marks.popleft()

    def outdate(self, began_s: float, depends_on: frozenset[int], tables: Mapping[int, Table]) -> bool:
        """Whether a plan that began then, and depends on these, may have changed since."""
        for read_s, mark in reversed(self._marks):
            if read_s < began_s:
                return False
            if mark.names_any(depends_on, tables.values()):
                return True
        return began_s <= self._forgotten_s
