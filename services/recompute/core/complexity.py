"""Queries that would cost us more than they cost PostgreSQL: too wide, too hungry. They go to `source`.

There statement_timeout and PostgreSQL's own limits rule. What a query does to Spark at run time, whatever its form, is
bounded by the deadlines of jobs; this is for what can be seen before.
"""

from collections.abc import Iterator

from services.recompute.core.tree import nodes as n
from services.recompute.core.tree import proven
from services.recompute.core.tree.constants import Undecodable, value_of
from services.recompute.core.tree.walking import children, queries, walk, walk_within

# Relations, counted as often as a query of WITH is put in; views are in the tree already.
MOST_RELATIONS = 128
# From-items that nothing but the product connects with the others.
MOST_UNCONNECTED = 1
LONGEST_REPEAT = 1_000
LONGEST_NESTED_REPEAT = 10_000
MOST_REPLACED = 2

_RELATION, _NAMED = 0, 6
_REPEATING = frozenset((*proven.FUNCTIONS["repeat"], *proven.FUNCTIONS["lpad"], *proven.FUNCTIONS["rpad"]))
_REPLACE = frozenset(proven.FUNCTIONS["replace"])
_EQUAL = frozenset(proven.OPERATORS["="])


def too_costly(tree: n.Query) -> Iterator[str]:
    """What may take Spark too much time or memory."""
    if _Relations().of(tree, ()) > MOST_RELATIONS:
        yield f"more than {MOST_RELATIONS} relations, with CTEs and views put in"
    if any(map(_is_product, queries(tree))):
        yield "a product of more than two relations"
    for node in walk(tree):
        if isinstance(node, n.FuncExpr) and node.funcid in _REPEATING and _growth(node) > LONGEST_NESTED_REPEAT:
            yield "a text repeated to a length that is not known to be small"
        if isinstance(node, n.FuncExpr) and node.funcid in _REPLACE and _replaced(node) > MOST_REPLACED:
            yield "replace of what was replaced"


class _Relations:
    """How many relations there are when each reference to a CTE has become its query."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def of(self, query: n.Query, around: tuple[n.Query, ...]) -> int:
        if id(query) not in self._known:
            self._known[id(query)] = min(self._counted(query, (*around, query)), MOST_RELATIONS + 1)
        return self._known[id(query)]

    def _counted(self, query: n.Query, stack: tuple[n.Query, ...]) -> int:
        named = {id(cte.ctequery) for cte in query.cteList if isinstance(cte, n.CommonTableExpr)}
        total = 0
        for node in _down_to_queries(query):
            if isinstance(node, n.Query):
                total += self.of(node, stack) if id(node) not in named else 0
            elif isinstance(node, n.RangeTblEntry) and node.rtekind == _RELATION:
                # The rules of views name the view itself before 16.
                total += node.relkind != "v"
            elif isinstance(node, n.RangeTblEntry) and node.rtekind == _NAMED:
                total += self._of_named(node, stack)
        return total

    def _of_named(self, entry: n.RangeTblEntry, stack: tuple[n.Query, ...]) -> int:
        at = len(stack) - 1 - entry.ctelevelsup
        for cte in stack[at].cteList if at >= 0 and not entry.self_reference else ():
            if isinstance(cte, n.CommonTableExpr) and cte.ctename == entry.ctename:
                return self.of(cte.ctequery, stack[: at + 1]) if isinstance(cte.ctequery, n.Query) else 1
        return 1


def _down_to_queries(query: n.Query) -> Iterator[n.Expr]:
    """The nodes of a query and the queries right inside of it, which are not gone into."""
    pending = list(children(query))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, n.Query):
            pending += children(node)


def _is_product(query: n.Query) -> bool:
    """Each from-item but the first needs an equality that ties it to another one."""
    if not isinstance(query.jointree, n.FromExpr):
        return False
    joins = [node for node in walk_within(query.jointree) if isinstance(node, n.JoinExpr)]
    free = len(query.jointree.fromlist) - 1 + sum(not _ties(join.quals) for join in joins)
    return free - _ties(query.jointree.quals) > MOST_UNCONNECTED


def _ties(condition: n.Expr | None) -> int:
    """How many of the conjuncts are equalities of columns of two relations."""
    if isinstance(condition, n.BoolExpr) and condition.boolop == "and":
        return sum(map(_ties, condition.args))
    if isinstance(condition, n.BoolExpr) and condition.boolop == "not":
        (inner,) = condition.args
        return int(isinstance(inner, n.DistinctExpr) and _is_tie(inner))
    return int(type(condition) is n.OpExpr and condition.opno in _EQUAL and _is_tie(condition))


def _is_tie(equality: n.OpExpr) -> bool:
    left, right = (
        {inner.varno for inner in walk_within(side) if isinstance(inner, n.Var) and not inner.varlevelsup}
        for side in equality.args
    )
    return bool(left) and bool(right) and left != right


def _growth(call: n.FuncExpr) -> int:
    """By how much a text grows at most in a call and those inside of it."""
    inner = max((_growth(one) for one in _calls_below(call) if one.funcid in _REPEATING), default=1)
    times = _whole(call.args[1])
    if times is None or times > LONGEST_REPEAT:
        return LONGEST_NESTED_REPEAT + 1
    return inner * max(times, 1)


def _calls_below(call: n.FuncExpr) -> Iterator[n.FuncExpr]:
    for argument in call.args:
        yield from (inner for inner in walk(argument) if isinstance(inner, n.FuncExpr))


def _replaced(call: n.FuncExpr) -> int:
    return 1 + sum(inner.funcid in _REPLACE for inner in _calls_below(call))


def _whole(node: n.Expr) -> int | None:
    try:
        value = value_of(node) if isinstance(node, n.Const) else None
    except Undecodable:
        return None
    return value if isinstance(value, int) else None
