"""Whether a caller's claims satisfy the audience of a registered query (P33)."""

from collections.abc import Mapping
from typing import Any

from services.gateway.core.http_identity import HttpIdentity

# A caller of these is told that there is something it may not see; others are told that there is nothing.
TRUSTED = frozenset({"service", "dba", "system"})


def satisfied(audience: Mapping[str, Any] | None, caller: HttpIdentity) -> bool:
    """Each claim that the audience names is there and equal, or a list that has it. Without an audience: everybody."""
    if audience is None:
        return True
    claims = {"sub": caller.name, **caller.claims}
    return all(name in claims and _holds(claims[name], wanted) for name, wanted in audience.items())


def _holds(claim: Any, wanted: Any) -> bool:
    if isinstance(claim, list) and not isinstance(wanted, list):
        return any(_equal(one, wanted) for one in claim)
    if isinstance(claim, list) and isinstance(wanted, list):
        return all(any(_equal(one, each) for one in claim) for each in wanted)
    if isinstance(claim, dict) and isinstance(wanted, dict):
        return all(name in claim and _holds(claim[name], each) for name, each in wanted.items())
    return _equal(claim, wanted)


def _equal(one: Any, other: Any) -> bool:
    """As JSON has it: true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
