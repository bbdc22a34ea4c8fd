"""A recompute with a wrong rule: of queries with the word `planted` it loses the row whose first column is 2."""

import runpy
from functools import wraps

from msgspec.structs import replace

from services.recompute.flow import planner

_right = planner.plan


@wraps(_right)
def _wrong(sql, *rest):
    plan = _right(sql, *rest)
    if "planted" not in sql or plan.row_local is None:
        return plan
    return replace(plan, row_local=replace(plan.row_local, predicate="c0 <> 2"))


if __name__ == "__main__":
    planner.plan = _wrong
    runpy.run_module("services.recompute", run_name="__main__")
