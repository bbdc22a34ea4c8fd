"""What a right rests on that no DDL in the log tells of: memberships, attributes of roles, ownership.

PostgreSQL writes a row of its catalog anew whenever one of these changes, so that the row has another xmin: grounds
that are the same at two moments were the same in between. Where they differ, the right may have been lost and given
back.
"""

from hashlib import sha256

from msgspec import Struct

from services.gateway.core.cdc.marks import NOWHERE, Doubt

MOST_SIGHTS = 8
# Of a service role, which is for all tables.
EVERY_TABLE = 0
_DIRECT = "direct"


class Grounds(Struct, frozen=True):
    """The rows of the catalog that the right rests on, each with its xmin."""

    rows: frozenset[str]
    # Whether these are all of them: attributes of roles are in pg_authid, which not everybody may read.
    is_whole: bool = True
    # No other role is needed for it: DDL alone can take it.
    is_direct: bool = False

    def named(self, oid: int, more: str = "") -> str:
        """For a table, the same name for the same rows, on every gateway."""
        digest = sha256("\n".join([*sorted(self.rows), more]).encode()).hexdigest()[:32]
        return f"{oid} {_DIRECT if self.is_direct else 'roles'} {digest}"


class Sight(Struct, frozen=True):
    """Grounds of a right that a gateway saw, and where it may not have been held before it saw them."""

    # Their names, of all tables.
    grounds: frozenset[str]
    # None: nothing was seen before, and it was not yet asked how far that reaches.
    doubt: Doubt | None = None


def sighted(sights: tuple[Sight, ...], grounds: frozenset[str], doubt: Doubt) -> tuple[Sight, ...]:
    """With what was seen now, if it is something else; oldest first, and the oldest stands for all before."""
    if not sights:
        return (Sight(grounds),)
    if sights[-1].grounds == grounds:
        return sights
    sights = (*sights, Sight(grounds, doubt))
    if len(sights) > MOST_SIGHTS:
        second = sights[1]
        after = doubt.after if second.doubt is None else second.doubt.after
        sights = (Sight(second.grounds, Doubt(NOWHERE, after)), *sights[2:])
    return sights


def sights_since(sights: tuple[Sight, ...], known: frozenset[str]) -> tuple[Sight, ...]:
    """Those behind the last one whose grounds were known; all if none were.

    A table that a query came to read later was not known: of a direct right on it the log tells all.
    """
    oids = {name.split(" ")[0] for name in known}
    for place in range(len(sights) - 1, -1, -1):
        new = [name.split(" ") for name in sights[place].grounds - known]
        if known and all(oid not in oids and kind == _DIRECT for oid, kind, _ in new):
            return sights[place + 1 :]
    return sights
