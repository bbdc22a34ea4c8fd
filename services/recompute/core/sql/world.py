"""What is the same in all parts of a template: its catalog, its parameters, and what was found out so far."""

from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import Collation, Described, PgType, Relation
from services.recompute.core.sql.numerics import digits_of
from services.recompute.core.sql.typed import BOOL, STRINGS, Typed, Untranslatable
from services.recompute.core.storage import decimal_digits
from services.recompute.core.tree import nodes as n
from services.recompute.core.tree.typing import collation_of, modifier_of, type_of

# A table of the log and the place of one of its columns.
Origin: TypeAlias = tuple[int, int]


class NotShared(Exception):
    """A parameter stands where the table of parameters is not in sight."""


class Field(Struct, frozen=True):
    """A column of a FROM item or of a query: in Spark it is called c0, c1 … by its place."""

    typed: Typed
    not_null: bool = False
    # What its value depends on, beside what the rows of its query depend on.
    reads: frozenset[Origin] = frozenset()


class Rows(Struct, frozen=True, kw_only=True):
    """A translated query: Spark SQL whose columns are c0, c1 …; at a template's top q and ord stand before them."""

    sql: str
    fields: tuple[Field, ...]
    # Sets of columns that are different in each row.
    keys: tuple[frozenset[int], ...] = ()
    # What decides which rows there are.
    reads: frozenset[Origin] = frozenset()
    tables: frozenset[int] = frozenset()
    ordered: bool = False
    unstable: bool = False
    correlated: bool = False
    # An aggregate without GROUP BY: a row even of nothing; and whether HAVING or LIMIT may take it away.
    is_whole: bool = False
    is_cut: bool = False


class World:
    def __init__(self, described: Described, settings: TextSettings, *, shared: bool) -> None:
        self.described = described
        self.settings = settings
        # Parameter tuples are a table that the top SELECT joins; else parameters are literals.
        self.shared = shared
        self.reads_clock = False
        self._relations = {relation.oid: relation for relation in described.relations.values()}
        self._numbers = 0

    def name(self, letter: str) -> str:
        self._numbers += 1
        return f"{letter}{self._numbers}"

    def relation(self, oid: int) -> Relation:
        found = self._relations.get(oid)
        if found is None:
            raise Untranslatable(f"relation {oid}")
        return found

    def label(self, oid: int) -> str:
        found = self.described.named.labels.get(oid)
        if found is None:
            raise Untranslatable("a constant of a type that is not known")
        return found

    def collation(self, oid: int) -> Collation:
        """Of a comparison or a function of texts; where PostgreSQL found none, there is no answer."""
        return self.described.named.collations.get(oid, Collation.LOOSE) if oid else Collation.LOOSE

    def pg_type(self, oid: int, modifier: int = -1, collation: int = 0) -> PgType:
        found = BOOL if oid == BOOL.oid else self.described.named.types.get(oid)
        if found is None:
            raise Untranslatable(f"type {oid}")
        # A domain has the modifier of the type below it.
        kept = found.modifier if found.modifier != -1 else modifier
        is_text = found.name in STRINGS
        return replace(found, modifier=kept, collation=self.collation(collation) if is_text else Collation.NONE)

    def type_of(self, node: n.Expr) -> PgType:
        """What PostgreSQL says an expression is."""
        return self.pg_type(type_of(node), modifier_of(node), collation_of(node))


def retyped(typed: Typed, wanted: PgType) -> Typed:
    """A value as the type that PostgreSQL gives it, which it must be held as already."""
    if typed.type.oid != wanted.oid:
        raise Untranslatable(f"{typed.type.name} where PostgreSQL has {wanted.name}")
    if wanted.name != "numeric":
        return replace(typed, type=wanted)
    digits = decimal_digits(wanted)
    if digits is None:
        return replace(typed, type=wanted, digits=typed.digits if typed.deferred else digits_of(typed))
    if typed.deferred or digits_of(typed) != digits or typed.printed_scale is not None:
        raise Untranslatable("a numeric that is held with other digits")
    return replace(typed, type=wanted, digits=None)
