"""The relations that a query reads, as PostgreSQL's catalog has them, followed through views and partitions."""

from collections.abc import Iterable, Mapping
from importlib.resources import files

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg.abc import Params

from services.recompute.core.catalog import Collation, Column, Named, Opaque, PgType, Relation, Table, Union, View
from services.recompute.core.row_security import Policy, visible
from services.recompute.core.tree.facts import Numbers

GENERATED_IN_LOG = 180000
_CATALOGS = ("pg_catalog", "information_schema", "pg_toast")
_KINDS = {
    "m": "materialized view {}",
    "f": "foreign table {}",
    "S": "sequence {}",
    "t": "TOAST table {}",
    "c": "composite type {}",
}


class _Found(Struct, frozen=True):
    """A row of relations.sql with the columns."""

    oid: int
    schema: str
    name: str
    kind: str
    persistence: str
    identity: str
    owner: int
    is_invoker: bool
    has_children: bool
    key: list[int]
    is_published: bool
    is_secured: bool
    is_forced: bool
    view_reads: list[int]
    columns: tuple[Column, ...] = ()
    places: dict[int, int] = {}


class Survey:
    """Looks relations up for one role; the connection's search_path must be pg_catalog's alone."""

    def __init__(
        self, connection: psycopg.Connection, *, role: str, role_oid: int, settings: Mapping[str, str]
    ) -> None:
        self._connection, self._role, self._role_oid, self._settings = connection, role, role_oid, settings
        row = connection.execute(statement("database")).fetchone()
        assert row is not None
        self.collation, self.encoding, self._version = Collation(row[0]), row[1], row[2]
        self.relations: dict[tuple[str, str], Relation] = {}
        self.oids: set[int] = set()
        self.obstacle = "" if self.encoding == "UTF8" else f"a database in {self.encoding}"

    def add(self, oids: Iterable[int]) -> dict[int, Relation]:
        """Take up relations that the query itself names, and all that they read."""
        return self._add(oids, self._role_oid)

    def types(self, oids: Iterable[int]) -> dict[int, PgType]:
        rows = self._rows("types", {"types": list(set(oids)), "default": self.collation.value})
        return {oid: PgType(oid, name, -1, kind, Collation(collation)) for oid, name, kind, collation in rows}

    def named(self, numbers: Numbers) -> Named:
        """What the numbers of a tree are in the catalog."""
        types: dict[int, PgType] = {}
        collations: dict[int, Collation] = {}
        labels: dict[int, str] = {}
        given = {
            "types": list(numbers.types),
            "collations": list(numbers.collations),
            "labels": list(numbers.labels),
            "default": self.collation.value,
        }
        for what, oid, base, name, modifier, kind in self._rows("named", given):
            match what:
                case "type":
                    types[oid] = PgType(base, name, modifier, kind)
                case "collation":
                    collations[oid] = Collation(name)
                case "label":
                    labels[oid] = name
        return Named(types=types, collations=collations, labels=labels, role=self._role)

    def _add(self, oids: Iterable[int], user: int) -> dict[int, Relation]:
        added = {found.oid: self._relation(found, user) for found in self._find(oids)}
        for relation in added.values():
            key = (relation.schema, relation.name)
            if self.relations.setdefault(key, relation) != relation:
                self.obstacle = f"{relation.schema}.{relation.name} is read with the rights of two roles"
        return added

    def _relation(self, found: _Found, user: int) -> Relation:
        self.oids.add(found.oid)
        if reason := _why_opaque(found):
            return self._opaque(found, reason)
        if found.kind == "v":
            self._add(found.view_reads, self._role_oid if found.is_invoker else found.owner)
            return View(oid=found.oid, schema=found.schema, name=found.name, columns=found.columns)
        row_filter = self._row_filter(found, user) if found.is_secured else ""
        if found.kind == "r" and not found.has_children:
            return replace(self._table(found), row_filter=row_filter)
        leaves = self._find(oid for (oid,) in self._rows("leaves", [found.oid]))
        self.oids |= {leaf.oid for leaf in leaves}
        reason = next((reason for reason in map(_why_opaque, leaves) if reason), "")
        if reason:
            return self._opaque(found, reason)
        return Union(
            oid=found.oid,
            schema=found.schema,
            name=found.name,
            columns=found.columns,
            members=tuple(self._table(leaf) for leaf in leaves),
            row_filter=row_filter,
        )

    def _table(self, found: _Found) -> Table:
        return Table(
            oid=found.oid,
            schema=found.schema,
            name=found.name,
            columns=found.columns,
            key=tuple(found.places[number] for number in found.key),
            obstacle=self._why_not_logged(found),
        )

    def _opaque(self, found: _Found, reason: str) -> Opaque:
        return Opaque(oid=found.oid, schema=found.schema, name=found.name, columns=found.columns, reason=reason)

    def _why_not_logged(self, found: _Found) -> str:
        name = f"{found.schema}.{found.name}"
        if found.identity == "n":
            return f"table {name} is not tracked"
        if not found.is_published:
            return f"updates and deletes of table {name} are not in the log (see `tidewire doctor`)"
        if any(column.generated == "v" for column in found.columns):
            return f"virtual generated columns of table {name}"
        if self._version < GENERATED_IN_LOG and any(column.generated for column in found.columns):
            return f"generated columns of table {name}, which the log of this PostgreSQL does not have"
        return ""

    def _row_filter(self, found: _Found, user: int) -> str:
        rows = self._rows("policies", {"user": user, "table": found.oid})
        if not rows:
            return ""
        policies = [Policy(permissive, condition) for permissive, condition in rows if condition is not None]
        seen = visible(policies, role=self._role, settings=self._settings)
        self.obstacle = seen.obstacle or self.obstacle
        return seen.condition

    def _find(self, oids: Iterable[int]) -> list[_Found]:
        wanted = list(dict.fromkeys(oids))
        found = [_Found(*row) for row in self._rows("relations", [wanted])]
        columns: dict[int, list[Column]] = {one.oid: [] for one in found}
        places: dict[int, dict[int, int]] = {one.oid: {} for one in found}
        rows = self._rows("columns", {"relations": wanted, "default": self.collation.value})
        for oid, number, name, type_oid, type_name, modifier, kind, collation, not_null, generated in rows:
            places[oid][number] = len(columns[oid])
            type_ = PgType(type_oid, type_name, modifier, kind, Collation(collation))
            columns[oid].append(Column(name, type_, not_null, generated, number))
        found.sort(key=lambda one: wanted.index(one.oid))
        return [replace(one, columns=tuple(columns[one.oid]), places=places[one.oid]) for one in found]

    def _rows(self, name: str, parameters: Params) -> list[tuple]:  # type: ignore[type-arg]
        return self._connection.execute(statement(name), parameters).fetchall()


def _why_opaque(found: _Found) -> str:
    name = f"{found.schema}.{found.name}"
    if found.schema in _CATALOGS:
        return f"catalog {name}"
    if found.kind in _KINDS:
        return _KINDS[found.kind].format(name)
    if found.persistence != "p":
        return f"{'unlogged' if found.persistence == 'u' else 'temporary'} table {name}"
    return ""


def statement(name: str) -> bytes:
    return (files(__package__) / "catalog_sql" / f"{name}.sql").read_bytes()
