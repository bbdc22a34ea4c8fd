"""DDL in the log, at its place: what it may have changed of a tree of tables or of a right.

What the catalog says is of now. What was so at an earlier place of the log is known only as far as the marks behind
that place leave no doubt; where they do, nothing is told of it.
"""

from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

MOST_MARKS = 2_000
# A place before every event.
NOWHERE = -1


class Mark(Struct, frozen=True, kw_only=True):
    """The DDL of one transaction; events of the same transaction count as before it and as behind it."""

    generation: int
    # The last seq before its transaction, and the last one of it.
    before: int
    after: int
    commands: tuple["Command", ...]
    # It stands for several transactions.
    is_many: bool = False


class Command(Struct, frozen=True, kw_only=True):
    tag: str
    tables: frozenset[int] = frozenset()
    # What the tables are parts of.
    parents: frozenset[int] = frozenset()
    types: frozenset[str] = frozenset()
    # It may have touched anything.
    is_blank: bool = False

    def names(self, oids: frozenset[int]) -> bool:
        return self.is_blank or bool(oids & (self.tables | self.parents))

    def may_move(self, family: frozenset[int]) -> bool:
        """Whether a table with a past may have come into this tree or left it."""
        if self.is_drop:
            return self.is_blank or "table" in self.types
        return self.is_blank or (self.tag.startswith("ALTER") and self.names(family))

    @property
    def is_drop(self) -> bool:
        return self.tag.startswith("DROP")

    def born_in(self, family: frozenset[int]) -> frozenset[int]:
        """The tables that were made as parts of this tree."""
        if not self.tag.startswith("CREATE") or not self.parents & family:
            return frozenset()
        return self.tables - self.parents

    def may_take(self, tables: frozenset[int]) -> bool:
        """Whether a right on these tables may be lost by it."""
        return self.tag != "GRANT" and self._is_of_rights(tables)

    def may_give(self, tables: frozenset[int]) -> bool:
        return self.tag not in ("REVOKE", "DROP OWNED") and self._is_of_rights(tables)

    def _is_of_rights(self, tables: frozenset[int]) -> bool:
        if self.tag in ("GRANT", "REVOKE"):
            # PostgreSQL does not tell which.
            return not self.types or bool(self.types & {"table", "schema"})
        if self.tag.startswith("ALTER TABLE"):
            return self.names(tables)
        return self.tag in ("ALTER SCHEMA", "REASSIGN OWNED", "DROP OWNED") or self.is_blank


class _Object(Struct):
    type: str | None = None
    oid: int | None = None


class _Described(Struct):
    tag: str = "DDL"
    objects: list[_Object] = []


_DECODER = msgspec.json.Decoder(_Described)


def command_of(description: bytes) -> Command:
    """As the event trigger wrote it; what cannot be read may have touched anything."""
    try:
        described = _DECODER.decode(description)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Command(tag="UNREADABLE", is_blank=True)
    kinds = [((one.type or "").lower(), one.oid) for one in described.objects]
    return Command(
        tag=described.tag,
        tables=frozenset(oid for kind, oid in kinds if oid and kind in ("table", "partitioned table")),
        parents=frozenset(oid for kind, oid in kinds if oid and kind == "parent"),
        types=frozenset(kind for kind, _ in kinds),
        is_blank=not kinds and not described.tag.startswith(("TIDEWIRE", "ALTER DEFAULT")),
    )


class Marks:
    """Those that the window has, oldest first; what is dropped for want of room stands for everything."""

    def __init__(self, most: int = MOST_MARKS) -> None:
        self._most = most
        self._marks: list[Mark] = []

    def add(self, mark: Mark) -> None:
        self._marks.append(mark)
        if len(self._marks) > self._most:
            half = self._marks[: self._most // 2]
            blank = Command(tag="MANY", is_blank=True)
            together = Mark(
                generation=half[-1].generation,
                before=half[0].before,
                after=half[-1].after,
                commands=(blank,),
                is_many=True,
            )
            self._marks[: len(half)] = [together]

    def forget_before(self, earliest: int) -> None:
        """Of places that nobody may read any more."""
        gone = 0
        while gone < len(self._marks) and self._marks[gone].after < earliest - 1:
            gone += 1
        if gone:
            del self._marks[:gone]

    def clear(self) -> None:
        self._marks.clear()

    def since(self, generation: int) -> list[Mark]:
        """Oldest first."""
        return list(reversed(list(self._newest_until(generation))))

    def end_of(self, generation: int) -> int | None:
        """The last seq before the DDL that ended this generation; None if that is not known."""
        after = self.since(generation)
        return after[0].before if after and after[0].generation == generation + 1 else None

    def last_of(self, oids: frozenset[int]) -> int:
        """The place of the last one that names one of these tables."""
        named = (m.after for m in reversed(self._marks) if any(command.names(oids) for command in m.commands))
        return next(named, NOWHERE)

    def __len__(self) -> int:
        return len(self._marks)

    def _newest_until(self, generation: int) -> Iterator[Mark]:
        for mark in reversed(self._marks):
            if mark.generation <= generation:
                return
            yield mark


class Doubt(Struct, frozen=True):
    """Events behind `before` and up to `after` may be of a time without the right."""

    before: int
    after: int


def may_be_lost(marks: Iterable[Mark], tables: frozenset[int]) -> bool:
    return any(command.may_take(tables) for mark in marks for command in mark.commands)


def doubt_of_right(marks: Iterable[Mark], tables: frozenset[int]) -> Doubt | None:
    """Marks between two moments at which there was the right: where it may have been lost and given back."""
    before: int | None = None
    found: Doubt | None = None
    for mark in marks:
        may_give = any(command.may_give(tables) for command in mark.commands)
        may_take = any(command.may_take(tables) for command in mark.commands)
        if may_give and (before is not None or mark.is_many):
            found = Doubt(mark.before if before is None else before, mark.after)
        if may_take and before is None:
            before = mark.before
    return found


class Tree(Struct, frozen=True, kw_only=True):
    """A table and its parts, as they are known to have been at a generation of the log."""

    generation: int
    # The tables with rows, those of them that may have more columns than the table, and all with those between.
    members: frozenset[int]
    wider: frozenset[int]
    family: frozenset[int]
    columns: frozenset[str]
    has_parts: bool
    # It was seen alike twice: the first time the catalog may have been ahead of the log.
    is_sure: bool = False


class Judged(Struct, frozen=True):
    """The tree as the log tells it, and up to where its events cannot be told by that."""

    tree: Tree
    broken: int = NOWHERE
    # The catalog has parts, or lacks some, that the log does not say anything about.
    is_ahead: bool = False


def judged(known: Tree | None, now: Tree, marks: list[Mark]) -> Judged:
    """`now` as the catalog has it; `marks` are those since `known`, or all of the window.

    What moved counts from the mark on that tells it: till then what joined is not read, and what left still is.
    """
    family = now.family if known is None else now.family | known.family
    commands = [command for mark in marks for command in mark.commands]
    born = frozenset(oid for command in commands for oid in command.born_in(family))
    moving = [mark for mark in marks if any(command.may_move(family) for command in mark.commands)]
    if known is None:
        if not now.has_parts:
            return Judged(now)
        return Judged(now, marks[-1].after if born - now.family else max((m.after for m in moving), default=NOWHERE))
    early, late = _untold(known, now, commands, family)
    tree = msgspec.structs.replace(
        now,
        members=(now.members - early) | late,
        wider=(now.wider - early) | (known.wider & late),
        is_sure=not early and not late,
    )
    has_moved = bool(tree.members - known.members - born) or bool(known.members - tree.members or born - now.family)
    # A child's own columns may have become the table's.
    has_widened = bool(tree.wider) and bool(now.columns - known.columns)
    # A part that is there before and after may have been away, unless one command alone could have moved it.
    altering = [mark for mark in moving if any(c.may_move(family) and not c.is_drop for c in mark.commands)]
    times = sum(2 if mark.is_many else 1 for mark in altering)
    may_have_moved = (now.has_parts or known.has_parts) and times > known.is_sure
    is_broken = bool(marks) and (has_moved or has_widened or may_have_moved)
    return Judged(tree, marks[-1].after if is_broken else NOWHERE, bool(early or late))


def _untold(
    known: Tree, now: Tree, commands: list[Command], family: frozenset[int]
) -> tuple[frozenset[int], frozenset[int]]:
    """The parts that joined, and those that left, of which no mark says so yet."""
    if any(command.is_blank for command in commands):
        return frozenset(), frozenset()
    named = frozenset(oid for command in commands for oid in command.tables)
    dropped = frozenset(oid for command in commands if command.is_drop for oid in command.tables)
    is_altered = any(command.may_move(family) and not command.is_drop for command in commands)
    left = known.members - now.members
    return now.members - known.members - named, frozenset() if is_altered else left - dropped
