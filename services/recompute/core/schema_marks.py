"""DDL in the log: what it touched, and which templates it puts in doubt."""

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec
from msgspec import Struct

from services.recompute.core.catalog import Table
from services.recompute.core.live_query import LiveTemplate

UNREADABLE = "UNREADABLE"
# Objects below it came with PostgreSQL: only a superuser changes them, and any query may depend on them.
FIRST_USER_OID = 16384
_OUR_OWN = ("TIDEWIRE ADOPT", "TIDEWIRE TRACK", "TIDEWIRE UNTRACK")
# These change nothing that there is, only the rights of what is made later; any login may run them.
_OF_NOTHING = frozenset({"ALTER DEFAULT PRIVILEGES"})
# These change what the relations that they name are, and nothing else. Others may change rights, policies, functions
# or types, which no relation's name tells.
_OF_RELATIONS = frozenset(
    f"{verb} {kind}"
    for verb in ("CREATE", "ALTER", "DROP")
    for kind in ("TABLE", "INDEX", "SEQUENCE", "VIEW", "MATERIALIZED VIEW", "FOREIGN TABLE", "TRIGGER", "STATISTICS")
) | {"CREATE TABLE AS", "SELECT INTO", "REINDEX", "REFRESH MATERIALIZED VIEW", "CREATE SCHEMA", "COMMENT", *_OUR_OWN}
# These give or take rights of the objects that they name.
_OF_RIGHTS = frozenset({"GRANT", "REVOKE"})
# What a query names if it uses it. Casts, operators and their classes it uses without: they are everybody's concern.
_OF_CODE = frozenset(
    f"{verb} {kind}"
    for verb in ("CREATE", "ALTER", "DROP")
    for kind in ("FUNCTION", "PROCEDURE", "ROUTINE", "AGGREGATE", "TYPE", "DOMAIN", "COLLATION", "CONVERSION")
) | frozenset(
    f"{verb} TEXT SEARCH {kind}" for verb in ("CREATE", "ALTER", "DROP") for kind in ("CONFIGURATION", "DICTIONARY")
)
_OF_POLICIES = frozenset({"CREATE POLICY", "ALTER POLICY", "DROP POLICY"})
# It may make values print as another text, though no row changes.
_OF_TEXTS = "ALTER TYPE"
# PostgreSQL cuts longer names, in bytes.
_NAME_BYTES = 63
_WORD = re.compile(r"[\w$]+")


class SchemaMark(Struct, frozen=True):
    """What a DDL command touched, as the event trigger wrote it."""

    command: str
    oids: frozenset[int]
    names: frozenset[tuple[str, str]]
    # As PostgreSQL spells the objects: a policy's is the only thing that tells its table.
    identities: frozenset[str] = frozenset()
    # Of the objects, in small letters: table, schema, function …
    types: frozenset[str] = frozenset()
    # The schemas among the objects.
    schemas: frozenset[str] = frozenset()
    # It says of each object which one it is.
    is_whole: bool = False

    @property
    def is_of_nothing(self) -> bool:
        """It changes the meaning of no plan."""
        return self.command in _OF_NOTHING

    @property
    def is_blank(self) -> bool:
        """The trigger could not say what was touched: it may be anything."""
        return not (self.oids or self.names or self.is_of_nothing) and self.command not in _OUR_OWN

    @property
    def is_unreadable(self) -> bool:
        """Not written by an event trigger of ours, or by one of another version."""
        return self.command == UNREADABLE

    def concerns(self, template: LiveTemplate) -> bool:
        """Whether the template's plan may mean something else behind it."""
        # More rights for somebody change no plan; whoever was refused is looked at again.
        if self.is_of_nothing or (self.command == "GRANT" and template.plan is not None):
            return False
        if template.plan is None or self.is_blank:
            return True
        if self.command in _OF_RELATIONS:
            return self._names_what_it_reads(template)
        if self.command in _OF_RIGHTS:
            return self._is_of_its_rights(template)
        if self.command in _OF_POLICIES:
            return any(self._is_of_policy(table) for table in template.tables.values())
        if self.command in _OF_CODE and not self._is_of_anything:
            return self._names_what_it_reads(template) or self._is_of_its_code(template)
        return True

    def may_rename(self, template: LiveTemplate) -> bool:
        """Whether it is to be planned anew: it is concerned, or a name that it writes may mean another relation."""
        if self.is_of_nothing:
            return False
        if self.command == "GRANT" and template.plan is not None:
            return self._may_open_a_schema_of(template)
        if self.concerns(template):
            return True
        if self.command not in _OF_RELATIONS:
            return False
        if not template.query.names:
            return True
        named = {name for _, name in self.names}
        return any(one.written_name in named for one in template.query.names)

    def reloads(self, template: LiveTemplate, oid: int) -> bool:
        """Whether the rows of this table of the template are to be taken anew."""
        return (self.command in {*_OF_RELATIONS, _OF_TEXTS} or self.is_blank) and self.touches(template, oid)

    def touches(self, template: LiveTemplate, oid: int) -> bool:
        """Whether it names this table of the template."""
        table = template.tables.get(oid)
        return self.is_blank or oid in self.oids or (table is not None and self.is_about(table))

    def alters_text(self, table: Table) -> bool:
        """Whether it may make values of the table print as another text, though no row changes."""
        return self.command == _OF_TEXTS and any(column.type.oid >= FIRST_USER_OID for column in table.columns)

    def is_about(self, table: Table) -> bool:
        """Whether it names the table, may mean it, or alters what its values print as."""
        named = table.oid in self.oids or (table.schema, table.name) in self.names
        return self.is_blank or named or self.alters_text(table)

    def names_any(self, depends_on: frozenset[int], tables: Iterable[Table]) -> bool:
        """Whether it names one of the objects or tables, or a policy of one of the tables, or may mean any."""
        if self.is_blank or self.oids & depends_on:
            return True
        return any(self.is_about(table) or self._is_of_policy(table) for table in tables)

    def _names_what_it_reads(self, template: LiveTemplate) -> bool:
        assert template.plan is not None
        named = any(self.touches(template, oid) for oid in template.tables)
        return named or bool(self.oids & (template.plan.depends_on | template.reads))

    @property
    def _is_of_anything(self) -> bool:
        """It does not say of what, or of what came with PostgreSQL."""
        return not self.is_whole or any(oid < FIRST_USER_OID for oid in self.oids)

    def _may_open_a_schema_of(self, template: LiveTemplate) -> bool:
        """Whether more rights may give a name another meaning: those to a schema on its search path."""
        if self.types and "schema" not in self.types:
            return False
        return not self.is_whole or bool(self.schemas.intersection(template.query.search_path))

    def _is_of_its_rights(self, template: LiveTemplate) -> bool:
        if self._is_of_anything:
            return True
        schemas = {table.schema for table in template.tables.values()} | {one.schema for one in template.query.names}
        return self._names_what_it_reads(template) or bool(self.schemas & schemas)

    def _is_of_its_code(self, template: LiveTemplate) -> bool:
        """Whether the query may call it: by its name, or out of other code, of which only PostgreSQL knows."""
        assert template.plan is not None
        if template.plan.calls_strangers:
            return True
        text = f"{template.query.sql} {template.query.template_sql} {template.query.filter}"
        return any(_may_name(text, name) for _, name in self.names)

    def _is_of_policy(self, table: Table) -> bool:
        if not self.command.endswith(" POLICY"):
            return False
        schemas, names = (table.schema, _quoted(table.schema)), (table.name, _quoted(table.name))
        ends = tuple(f" on {schema}.{name}" for schema in schemas for name in names)
        return any(identity.endswith(ends) for identity in self.identities)


@lru_cache(1000)
def _words(text: str) -> frozenset[str]:
    """In small letters, and cut as PostgreSQL cuts names."""
    return frozenset(word.encode()[:_NAME_BYTES].decode(errors="ignore") for word in _WORD.findall(text))


def _may_name(sql: str, name: str) -> bool:
    """Whether a text may hold this name, in quotes or not."""
    text, name = sql.lower(), name.lower()
    if 'u&"' in text:
        return True
    return name in _words(text) if _WORD.fullmatch(name) else name in text.replace('""', '"')


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def read_mark(description: bytes) -> SchemaMark:
    """Read a mark; one that cannot be read counts as touching everything."""
    try:
        described = _DECODER.decode(description)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return SchemaMark(command=UNREADABLE, oids=frozenset(), names=frozenset())
    return SchemaMark(
        command=described.tag,
        oids=frozenset(one.oid for one in described.objects if one.oid),
        names=frozenset((one.schema or "", one.name or "") for one in described.objects),
        identities=frozenset(one.identity for one in described.objects if one.identity),
        types=frozenset(one.type.lower() for one in described.objects if one.type),
        schemas=frozenset(one.name for one in described.objects if one.type == "schema" and one.name),
        is_whole=bool(described.objects) and all(one.oid and one.name for one in described.objects),
    )


class _Object(Struct):
    type: str | None = None
    oid: int | None = None
    schema: str | None = None
    name: str | None = None
    identity: str | None = None


class _Described(Struct):
    tag: str = "DDL"
    objects: list[_Object] = []


_DECODER = msgspec.json.Decoder(_Described)
