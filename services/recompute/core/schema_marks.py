"""DDL in the log: what it touched, and which templates it puts in doubt."""

import orjson
from msgspec import Struct

from services.recompute.core.catalog import Table
from services.recompute.core.live import LiveTemplate

_OUR_OWN = ("TIDEWIRE ADOPT", "TIDEWIRE TRACK", "TIDEWIRE UNTRACK")
# These change what the relations that they name are, and nothing else. Others may change rights, policies, functions
# or types, which no relation's name tells.
_OF_RELATIONS = frozenset(
    f"{verb} {kind}"
    for verb in ("CREATE", "ALTER", "DROP")
    for kind in ("TABLE", "INDEX", "SEQUENCE", "VIEW", "MATERIALIZED VIEW", "FOREIGN TABLE", "TRIGGER", "STATISTICS")
) | {"CREATE TABLE AS", "SELECT INTO", "REINDEX", "REFRESH MATERIALIZED VIEW", "CREATE SCHEMA", "COMMENT", *_OUR_OWN}


class SchemaMark(Struct, frozen=True):
    """What a DDL command touched, as the event trigger wrote it."""

    command: str
    oids: frozenset[int]
    names: frozenset[tuple[str, str]]

    @property
    def is_blank(self) -> bool:
        """The trigger could not say what was touched: it may be anything."""
        return not (self.oids or self.names) and self.command not in _OUR_OWN

    def concerns(self, template: LiveTemplate) -> bool:
        """Whether the template's plan may mean something else behind it."""
        if template.plan is None or self.command not in _OF_RELATIONS or self.is_blank:
            return True
        named = any(self.touches(template, oid) for oid in template.tables)
        return named or bool(self.oids & (template.plan.depends_on | template.reads))

    def touches(self, template: LiveTemplate, oid: int) -> bool:
        """Whether it names this table of the template."""
        table = template.tables.get(oid)
        return self.is_blank or oid in self.oids or (table is not None and self.is_about(table))

    def is_about(self, table: Table) -> bool:
        """Whether it names the table, or may mean it."""
        return self.is_blank or table.oid in self.oids or (table.schema, table.name) in self.names


def read_mark(description: bytes) -> SchemaMark:
    described = orjson.loads(description)
    objects = described.get("objects", [])
    return SchemaMark(
        command=str(described.get("tag", "DDL")),
        oids=frozenset(one["oid"] for one in objects if one.get("oid")),
        names=frozenset((one.get("schema") or "", one.get("name") or "") for one in objects),
    )
