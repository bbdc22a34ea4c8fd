"""What Spark is not trusted with any more: tables that it cannot hold, and templates whose result was wrong."""

import msgspec

from services.recompute.core.live_query import LiveTemplate
from services.recompute.core.plan import Plan, Strategy

WRONG = "a result of it differed from PostgreSQL's answer"
# The oldest are forgotten; a template that is wrong is found again.
MOST_DISTRUSTED = 10_000


class Fitness:
    def __init__(self) -> None:
        self._unfit: dict[int, str] = {}
        self._distrusted: dict[bytes, None] = {}

    def unfit(self, table: int, reason: str) -> None:
        self._unfit[table] = reason

    def may_fit(self, table: int) -> None:
        """It is another table now."""
        self._unfit.pop(table, None)

    def distrust(self, template: LiveTemplate) -> None:
        self._distrusted[template.id] = None
        if len(self._distrusted) > MOST_DISTRUSTED:
            del self._distrusted[next(iter(self._distrusted))]

    def fitting(self, template: LiveTemplate, plan: Plan) -> Plan:
        """The plan, or PostgreSQL where Spark is not trusted with it."""
        reason = next((self._unfit[read.table] for read in plan.reads if read.table in self._unfit), None)
        if template.id in self._distrusted:
            reason = WRONG
        if reason is None or plan.strategy is Strategy.SOURCE:
            return plan
        why_not = plan.why_not | {Strategy.ROW_LOCAL.value: reason, Strategy.FULL.value: reason}
        return msgspec.structs.replace(
            plan, strategy=Strategy.SOURCE, why_not=why_not, row_local=None, full=None, live=None
        )
