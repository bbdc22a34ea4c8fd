"""Faults of the translator, planted back: in each of these ways Spark once answered otherwise than PostgreSQL."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Final, TypeAlias

import pytest

from services.recompute.core import planning
from services.recompute.core.catalog import Collation
from services.recompute.core.sql import aggregates, expressions, forms, operators
from services.recompute.core.sql.block import Block
from services.recompute.core.sql.typed import Typed
from services.recompute.core.sql.world import World

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]


def _memberships(patch: pytest.MonkeyPatch) -> None:
    """IN (SELECT …) is translated wherever a condition is, also where FALSE is not NULL."""
    patch.setattr(Block, "below", lambda _block, _node: nullcontext())


def _distinct_numerics(patch: pytest.MonkeyPatch) -> None:
    """Sums of DISTINCT numerics, of whichever of 1.0 and 1.00 comes first."""
    patch.setattr(aggregates, "check_scales", lambda _typed: None)


def _padded(patch: pytest.MonkeyPatch) -> None:
    """char(n) is compared with its padding."""

    def with_padding(typed: Typed) -> str:
        return typed.sql if typed.type.name == "bpchar" else forms.equality_key(typed)

    patch.setattr(operators, "equality_key", with_padding)


def _collations(patch: pytest.MonkeyPatch) -> None:
    """Every text is ordered by its bytes, and none has no collation."""
    patch.setattr(World, "collation", lambda _world, _oid: Collation.BYTES)


def _escapes(patch: pytest.MonkeyPatch) -> None:
    """ILIKE folds the sign of ESCAPE too."""
    patch.setattr(expressions, "check_escape", lambda *, folds: None)


def _errors(patch: pytest.MonkeyPatch) -> None:
    """What Spark's optimiser leaves out raises no error."""
    patch.setattr(planning, "refusal", lambda _tree: "")


# By the family of queries that finds it.
FAULTS: Final[Mapping[str, tuple[str, Plant]]] = MappingProxyType(
    {
        "memberships": ("memberships", _memberships),
        "distinct numerics": ("numerics", _distinct_numerics),
        "padded texts": ("padded", _padded),
        "collations": ("collations", _collations),
        "escapes": ("texts", _escapes),
        "errors": ("errors", _errors),
    }
)
