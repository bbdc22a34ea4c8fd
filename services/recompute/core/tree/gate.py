"""What Spark is not asked though it could be translated: its optimiser and its time differ from PostgreSQL's."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeAlias

from services.recompute.core.complexity import too_costly
from services.recompute.core.tree.nodes import Query
from services.recompute.core.tree.removable_errors import removable_errors

Rule: TypeAlias = Callable[[Query], Iterator[str]]

RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "errors": removable_errors,
        "costs": too_costly,
    }
)


def refusal(tree: Query, rules: Mapping[str, Rule] = RULES) -> str:
    """Why Spark may not compute a query; empty if it may."""
    return next(chain(*(rule(tree) for rule in rules.values())), "")
