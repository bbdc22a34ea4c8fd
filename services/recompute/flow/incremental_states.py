"""What is known of a template that incremental operators keep, and of a table that they hold."""

from concurrent.futures import Future
from enum import Enum
from itertools import count
from typing import Any

from proto.rows import ResultRow
from services.recompute.core.assembly import Printing
from services.recompute.core.catalog import Table
from services.recompute.core.live_query import LiveQuery, LiveTemplate
from services.recompute.core.plan import Plan
from services.recompute.core.row_changes import Changes
from services.recompute.core.row_order import RowOrder


class Stage(Enum):
    PLANNING, PLANNED, BUILDING, LIVE, REFUSED = range(5)


class Kept:
    """A template and its operators."""

    def __init__(self, number: int, template: LiveTemplate, plan: Plan) -> None:
        self.number, self.template, self.plan = number, template, plan
        self.stage, self.reason, self.retry_at_s = Stage.PLANNING, "", float("inf")
        self.work: Future[Any] | None = None
        self.printing = Printing([column.type for column in plan.columns], template.query.text_settings)
        self.is_shared = plan.live is not None and "⟦params⟧" in plan.live.sql
        # The queries by the number of their tuple; all have the number 0 where tuples are not shared.
        self.queries: dict[int, LiveQuery] = {}
        self.values: dict[int, ResultRow] = {}
        self.orders: dict[int, RowOrder] = {}
        self._numbers = count()

    def work_on(self, stage: Stage, work: Future[Any]) -> None:
        self.stage, self.work = stage, work

    def reach(self, stage: Stage) -> None:
        """What was under way is done."""
        self.stage, self.work = stage, None

    def go_live(self) -> None:
        self.reach(Stage.LIVE)
        if not self.is_shared:
            self.queries = dict(enumerate(self.wanted().values()))

    def refuse(self, reason: str, retry_at_s: float) -> None:
        self.stage, self.work, self.reason, self.retry_at_s = Stage.REFUSED, None, reason, retry_at_s
        self.queries, self.values, self.orders = {}, {}, {}

    def moved_tuples(self) -> list[tuple[int, ResultRow, int]]:
        """The tuples that came and went; a query whose result is gone gets a new number, and all its rows with it."""
        signed: list[tuple[int, ResultRow, int]] = []
        if self.stage is not Stage.LIVE or not self.is_shared:
            return signed
        wanted = self.wanted()
        for number, live in list(self.queries.items()):
            is_lost = live.result is None and number in self.orders
            if wanted.get(live.id) is not live or live.values != self.values[number] or is_lost:
                signed.append((number, self.values.pop(number), -1))
                del self.queries[number]
                self.orders.pop(number, None)
        known = {live.id for live in self.queries.values()}
        for live in wanted.values():
            if live.id not in known and live.values is not None:
                number = next(self._numbers)
                signed.append((number, live.values, 1))
                self.queries[number], self.values[number] = live, live.values
        return signed

    def order(self, number: int) -> RowOrder:
        return self.orders.setdefault(number, RowOrder())

    def wanted(self) -> dict[bytes, LiveQuery]:
        members = self.template.members
        return {one.id: one for one in members.values() if one.values is not None and not one.is_by_postgres}

    def is_complete(self) -> bool:
        """Whether every query of the template has its rows from the operators."""
        known = {one.id for one in self.queries.values() if one.result is not None}
        return self.stage is Stage.LIVE and known == set(self.wanted())

    def has_lost(self) -> bool:
        """Whether a result is gone that only a new build would bring."""
        wanted = self.wanted()
        if self.is_shared:
            return False
        known = {one.id for one in self.queries.values()}
        return bool(wanted.keys() - known) or any(wanted[id].result is None for id in known & wanted.keys())


class HeldTable:
    """A table whose rows the operators have, or will have when its load is done."""

    def __init__(self, table: Table, loads: object, load: Future[None]) -> None:
        self.table, self.loads, self.load = table, loads, load
        self.is_held = False
        self.backlog: list[Changes] = []
        self.backlog_rows = 0

    def change_later(self, changed: Changes) -> None:
        self.backlog.append(changed)
        self.backlog_rows += len(changed.keys) + len(changed.rows)

    def set_held(self) -> None:
        self.backlog, self.backlog_rows, self.is_held = [], 0, True
