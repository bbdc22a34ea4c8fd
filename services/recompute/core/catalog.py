"""What PostgreSQL's catalog says of a query: its relations, its parameters, its result."""

from enum import Enum
from typing import TypeAlias

from msgspec import Struct


class Collation(Enum):
    """How texts of a column compare."""

    NONE = "none"  # the type has no collation
    BYTES = "bytes"  # C, POSIX, ucs_basic: equal and ordered by their bytes
    LANGUAGE = "language"  # equal if their bytes are equal, ordered by a language's rules
    LOOSE = "loose"  # nondeterministic: different bytes may be equal


class PgType(Struct, frozen=True):
    """A type with its modifier; `name` is pg_catalog's own (int4, numeric, _text), or schema.name for others."""

    oid: int
    name: str
    modifier: int = -1
    # pg_type.typtype: b base, c composite, d domain, e enum, r range, p pseudo.
    kind: str = "b"
    collation: Collation = Collation.NONE


class Column(Struct, frozen=True):
    name: str
    type: PgType
    not_null: bool = False
    # pg_attribute.attgenerated: empty, s stored, v virtual.
    generated: str = ""
    # pg_attribute.attnum, by which the tree names a column; 0: its place counted from 1.
    number: int = 0


class Table(Struct, frozen=True, kw_only=True):
    """A table whose rows are in the log. `key` are the places of the primary key's columns; empty if there is none."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    # Why rows of the log cannot stand for rows of the table; empty if they can.
    obstacle: str = ""
    # What the subscriber's role may see, as SQL over the table's own columns; empty: everything.
    row_filter: str = ""

    def position(self, name: str) -> int | None:
        return next((at for at, column in enumerate(self.columns) if column.name == name), None)


class Union(Struct, frozen=True, kw_only=True):
    """A partitioned table or one with children: its rows are those of `members`, each with its own oid in the log.

    `members` hold the columns under the parent's names; those a child has beside them are left out of a query's sight.
    """

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    members: tuple[Table, ...]
    row_filter: str = ""


class View(Struct, frozen=True, kw_only=True):
    """Its query is in the tree of the query that reads it."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]


class Opaque(Struct, frozen=True, kw_only=True):
    """A relation whose rows the log does not show: `reason` says which kind and why."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    reason: str


Relation: TypeAlias = Table | Union | View | Opaque


class Named(Struct, frozen=True, kw_only=True):
    """What the numbers in a rewritten tree stand for."""

    # By the oid in the tree; a domain is the type below it, with that one's modifier.
    types: dict[int, PgType] = {}
    collations: dict[int, Collation] = {}
    # The values of enums, by their own oid.
    labels: dict[int, str] = {}
    # What CURRENT_USER is.
    role: str = ""


class Described(Struct, frozen=True, kw_only=True):
    """All that planning needs to know of one template."""

    # By schema and name; the relations inside views stand here too.
    relations: dict[tuple[str, str], Relation]
    # As PostgreSQL's own Describe of the prepared template says.
    parameter_types: tuple[PgType, ...]
    columns: tuple[Column, ...]
    # Names of functions, operators and types in the template that may mean another thing than pg_catalog's.
    strangers: frozenset[str] = frozenset()
    # Oids of every relation, function, type or role whose DDL may change the meaning.
    depends_on: frozenset[int] = frozenset()
    # Why no Spark strategy may be used at all, e.g. a policy that is not deparsed exactly; empty if one may.
    obstacle: str = ""
    # The database's own collation, which parameters, casts and literals of text have.
    collation: Collation = Collation.LANGUAGE
    # It calls now(), CURRENT_DATE or their like, views and policies included.
    reads_clock: bool = False
    # A date or a time among the tree's constants may be the moment at which PostgreSQL read the text.
    may_hold_moments: bool = False
    # A function that has no single right answer, as random(); empty if there is none.
    unsteady: str = ""
    # A function whose answer depends on something that the log does not show; empty if there is none.
    unlogged: str = ""
    # PostgreSQL's rewritten tree as one line of node text: views and policies are put in.
    rewritten: str = ""
    named: Named = Named()
