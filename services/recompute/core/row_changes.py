"""What became of a table's rows since its readers were last told."""

from msgspec import Struct

from proto.rows import ResultRow


class Diverged(Exception):
    """A change does not fit the rows that are held: the table must be taken anew."""


class Changes(Struct, frozen=True):
    """`keys` of the rows that changed, of tables held by a key; `rows` that came (+) and, of multisets, that went (−).

    `emptied`: all that was there before is gone, and the rest is what came after.
    """

    keys: list[ResultRow]
    rows: list[tuple[ResultRow, int]]
    emptied: bool = False


NOTHING = Changes([], [])
