"""Failures of one template: counted, logged with its query, and kept from ending the loop."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from structlog.typing import FilteringBoundLogger

from services.recompute.core.live_query import Failure, LiveTemplate
from services.recompute.errors import is_of_the_process
from services.recompute.metrics import Metrics

INTERNAL_ERROR = "XX000"
SHOWN_CHARACTERS = 500


class Failures:
    """Counts by stage: describe, plan, normalise, evaluate, operators, deadline, publish, track, quarantine."""

    def __init__(self, metrics: Metrics, log: FilteringBoundLogger) -> None:
        self._metrics, self._log = metrics, log

    def note(self, stage: str, template: LiveTemplate, reason: str, **facts: object) -> None:
        self._metrics.template_failures.labels(stage).inc()
        self._log.warning(
            "template_failed",
            stage=stage,
            template=template.id.hex(),
            role=template.query.role,
            query=template.query.sql[:SHOWN_CHARACTERS] or template.query.template_sql[:SHOWN_CHARACTERS],
            reason=reason,
            **facts,
        )

    def programming_error(self, template: LiveTemplate, reason: str, error: Exception | None = None) -> None:
        """An error in our own planning code: the query is left to PostgreSQL, and the code needs a fix."""
        self._metrics.planning_errors.inc()
        self.note("plan", template, reason, exc_info=error)

    @contextmanager
    def caught(self, stage: str, template: LiveTemplate, fail: Callable[[Failure], None]) -> Iterator[None]:
        """Errors inside are the template's: `fail` tells its subscribers."""
        try:
            yield
        except Exception as error:
            if is_of_the_process(error):
                raise
            self.note(stage, template, repr(error)[:SHOWN_CHARACTERS], exc_info=error)
            fail(failure_of(error))


def dropped(words: str) -> str:
    """PostgreSQL's message for a missing relation, worded for a subscriber that could read it before."""
    prefix, suffix = 'relation "', '" does not exist'
    if words.startswith(prefix) and words.endswith(suffix):
        return f"table '{words[len(prefix) : -len(suffix)]}' was dropped"
    return words


def failure_of(error: Exception) -> Failure:
    """The error as subscribers see it."""
    sqlstate = getattr(error, "sqlstate", None)
    if isinstance(sqlstate, str):
        return Failure(sqlstate, str(error))
    return Failure(INTERNAL_ERROR, f"the query could not be evaluated ({type(error).__name__})")
