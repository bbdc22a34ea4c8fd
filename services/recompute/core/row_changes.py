"""Net row changes of a table since the last tick."""

from msgspec import Struct

from proto.rows import ResultRow


class Diverged(Exception):
    """A change does not fit the rows of the replica: the table must be loaded again."""


class Changes(Struct, frozen=True):
    """`keys` of changed rows (tables with a key), and `rows` added (+1) or, in tables without a key, removed (−1).

    `emptied`: the table was truncated; `rows` are those added since.
    """

    keys: list[ResultRow]
    rows: list[tuple[ResultRow, int]]
    emptied: bool = False


NOTHING = Changes([], [])
