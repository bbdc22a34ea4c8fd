"""Whether what a subscription was led to is what PostgreSQL answered there."""

from collections.abc import Sequence
from itertools import pairwise

from proto.positions import Lsn
from services.chassis.kafka import Kafka
from tests.e2e.live.scaled_stack import ScaledStack
from tests.e2e.live.subscription import Phase, Subscription
from tests.oracle.answers import Answer, difference
from tests.oracle.case import Question
from tests.oracle.commits import commits_until_now
from tests.oracle.playing import Moment


class Judge:
    """The states of the database in commit order, and where in the log each begins."""

    def __init__(self, stack: ScaledStack, moments: Sequence[Moment]) -> None:
        with stack.connect() as connection:
            found = commits_until_now(connection, Kafka(bootstrap=stack.kafka, topic_prefix=stack.prefix))
        self._moments = moments
        self._lsns = [found.get(moment.xid, moment.lsn) for moment in moments[1:] if moment.xid is not None]

    def wrong_on_the_way(self, one: Subscription) -> str:
        """The first state that PostgreSQL did not answer at its LSN, or that is older than the subscribe."""
        for state in one.states:
            number = self._number(state.lsn)
            right = self._moments[number].answers[one.at]
            found = difference(one.question.check, right, state.rows, in_order=state.is_full)
            if found:
                return f"after {number} commits (at {state.lsn}, {'whole' if state.is_full else 'merged'}): {found}"
        for asked_at, lsn in one.firsts:
            if self._number(lsn) < asked_at:
                return f"asked for after {asked_at} commits, and the first result is of {self._number(lsn)}"
        return ""

    def wrong_at_the_end(self, one: Subscription) -> str:
        """What is held, against the last answer; of one that was resumed and saw no change since, nothing is asked."""
        right = self._moments[-1].answers[one.at]
        if one.phase is Phase.OVER:
            refused_rightly = any(moment.answers[one.at].error for moment in self._moments)
            return "" if refused_rightly else f"it was refused: {one.words}"
        if one.phase is Phase.FAILED:
            return "" if right.error else f"it failed: {one.words}"
        if one.phase is not Phase.LIVE or not one.states:
            return f"it is {one.phase.value}"
        if self._may_lag(one):
            return ""
        return difference(one.question.check, right, tuple(one.rows.elements()))

    def _number(self, lsn: Lsn) -> int:
        return sum(one <= lsn for one in self._lsns)

    def _may_lag(self, one: Subscription) -> bool:
        """Decision 1: after a resume only the next change brings what was missed."""
        if one.paused:
            return True
        if one.resumed_at is None:
            return False
        answers = [moment.answers[one.at] for moment in self._moments[one.resumed_at :]]
        return _is_uncertain(one.question) or not any(
            _differ(one.question, before, after) for before, after in pairwise(answers)
        )


def _is_uncertain(question: Question) -> bool:
    return bool(question.check.among or question.check.approximate)


def _differ(question: Question, before: Answer, after: Answer) -> bool:
    if before.error or after.error:
        return before.error != after.error
    return bool(difference(question.check, before, after.rows))
