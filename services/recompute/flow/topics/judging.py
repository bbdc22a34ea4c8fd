"""Which candidates become messages: each filter is asked once for all rows of a step."""

from collections.abc import Sequence

from msgspec import Struct

from proto.pgoutput.messages import Relation
from services.recompute.core.topics.routing import Candidate
from services.recompute.outbound.postgres.topic_filters import Filter, TopicFilters, Verdict


class Judged(Struct, frozen=True):
    """The messages in their order, and what could not be judged, with the reason."""

    matched: list[Candidate]
    failed: list[tuple[Candidate, str]]


def judged(candidates: Sequence[Candidate], filters: TopicFilters) -> Judged:
    verdicts: list[Verdict] = [one.trouble or True for one in candidates]
    asked: dict[tuple[Filter, int], tuple[Relation, list[int]]] = {}
    for number, one in enumerate(candidates):
        expression = one.route.filter_expr
        if one.trouble is None and expression is not None:
            filter_ = Filter(one.route.role, one.table.schema, one.table.name, expression)
            relation = one.change.relation
            asked.setdefault((filter_, id(relation)), (relation, []))[1].append(number)
    for (filter_, _), (relation, numbers) in asked.items():
        answers = filters.judge(filter_, relation, [candidates[number].change.row for number in numbers])
        for number, answer in zip(numbers, answers, strict=True):
            verdicts[number] = answer
    found = list(zip(candidates, verdicts, strict=True))
    return Judged(
        [one for one, verdict in found if verdict is True],
        [(one, verdict) for one, verdict in found if isinstance(verdict, str)],
    )
