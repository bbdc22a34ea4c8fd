"""Looks at rights, policies and roles again from time to time: they may change without a mark in the log."""

import time
from collections.abc import Callable

from services.recompute.core.live_query import Failure
from services.recompute.flow.live_queries import LiveQueries
from services.recompute.flow.plan_results import PlanResults
from services.recompute.flow.planner import Planner

# Rights that changed and could not be looked at for so long are taken for lost.
UNVERIFIED_S = 40.0


class RightsCheck:
    """A template whose rights may have changed is planned anew, and refused if that takes too long."""

    def __init__(
        self,
        planner: Planner,
        live_queries: LiveQueries,
        plan_results: PlanResults,
        *,
        recheck_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._planner, self._live_queries, self._plan_results = planner, live_queries, plan_results
        self._recheck_s, self._next_recheck_s, self._clock = recheck_s, clock(), clock

    def turn(self) -> None:
        now_s = self._clock()
        if now_s >= self._next_recheck_s:
            self._next_recheck_s = now_s + self._recheck_s
            self._planner.look_at_rights()
        templates = self._live_queries.templates.values()
        if self._planner.rights_changed():
            for template in templates:
                template.doubt_rights(now_s)
                self._planner.ask(template, first=True)
        for template in templates:
            if template.rights_overdue(now_s, UNVERIFIED_S):
                message = f"the rights of role {template.query.role} could not be verified in time"
                self._plan_results.refuse(template, Failure("42501", message))
