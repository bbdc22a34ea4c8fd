"""Makes a wrong case small: fewer steps, less data, a shorter query, as long as it stays wrong."""

from collections.abc import Callable, Iterator

import sqlglot
from msgspec.structs import replace
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tests.oracle.case import Case, Question

MOST_TRIES = 150


class Reducer:
    """`is_wrong` says of a case whether it still is; it is asked at most so often."""

    def __init__(self, is_wrong: Callable[[Case], bool], tries: int = MOST_TRIES) -> None:
        self._is_wrong, self._left = is_wrong, tries

    def reduced(self, case: Case) -> Case:
        case = self._fewer_steps(case)
        return self._shorter_query(case)

    def _holds(self, case: Case) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        try:
            return self._is_wrong(case)
        except Exception:
            # What cannot be run at all is no smaller form of what is wrong.
            return False

    def _fewer_steps(self, case: Case) -> Case:
        if case.steps and self._holds(without := replace(case, steps=())):
            return without
        at = len(case.steps) - 1
        while at >= 0:
            fewer = replace(case, steps=case.steps[:at] + case.steps[at + 1 :])
            if len(fewer.steps) < len(case.steps) and self._holds(fewer):
                case = fewer
            at -= 1
        return case

    def _shorter_query(self, case: Case) -> Case:
        found = True
        while found and self._left > 0:
            found = False
            for question in shorter(case.questions[0]):
                smaller = replace(case, questions=(question,))
                if self._holds(smaller):
                    case, found = smaller, True
                    break
        return case


def shorter(question: Question) -> Iterator[Question]:
    """The question with one part less, the largest parts first; its parameters keep their numbers."""
    if question.filter:
        yield replace(question, filter="")
    if question.settings:
        yield replace(question, settings={})
    try:
        tree = sqlglot.parse_one(question.sql, dialect="postgres")
    except SqlglotError:
        return
    seen = {question.sql}
    for cut in _cuts(tree, question):
        sql = cut.sql(dialect="postgres")
        # A query that lost a parameter would be given one too many.
        if sql in seen or len(sql) >= len(question.sql) + 20 or not _same_parameters(question, sql):
            continue
        seen.add(sql)
        yield replace(question, sql=sql)


def _same_parameters(question: Question, sql: str) -> bool:
    return all(f"${number}" in sql for number in range(1, len(question.parameters) + 1))


def _cuts(tree: exp.Expression, question: Question) -> Iterator[exp.Expression]:
    nodes = list(tree.walk())
    for at, node in enumerate(nodes):
        for name in ("where", "having", "limit", "offset", "order", "distinct"):
            if (
                isinstance(node, exp.Select)
                and node.args.get(name) is not None
                and not (node is tree and _settled(question))
            ):
                yield _changed(tree, at, lambda copy, name=name: copy.set(name, None))
        if isinstance(node, exp.Select) and len(node.expressions) > 1 and not (node is tree and _settled(question)):
            for place in range(len(node.expressions)):
                yield _changed(tree, at, lambda copy, place=place: _drop(copy, place))
        if isinstance(
            node, exp.And | exp.Or | exp.Case | exp.Coalesce | exp.Func | exp.Binary | exp.Paren | exp.Unary | exp.Cast
        ):
            for child in node.iter_expressions():
                if isinstance(child, exp.Condition) and not isinstance(child, exp.DataType):
                    replacement = child.copy()
                    yield _changed(tree, at, lambda copy, new=replacement: copy.replace(new.copy()))


def _settled(question: Question) -> bool:
    """Whether the check counts on the places of the result's columns."""
    return bool(question.check.ordered_by or question.check.approximate or question.check.among)


def _drop(select: exp.Expression, place: int) -> None:
    kept = [one for at, one in enumerate(select.expressions) if at != place]
    select.set("expressions", kept)


def _changed(tree: exp.Expression, at: int, change: Callable[[exp.Expression], object]) -> exp.Expression:
    copy = tree.copy()
    change(list(copy.walk())[at])
    return copy
