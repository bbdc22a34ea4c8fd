"""What a replication slot with our publications shows, decoded."""

import json
from collections.abc import Iterator

import psycopg
from msgspec import Struct

from proto.pgoutput.decoder import decode
from proto.pgoutput.messages import Commit, Delete, Insert, Relation, Truncate, Update
from services.capture.outbound import watch


class Transaction(Struct):
    """A committed transaction: `rows` as (operation, table), `marks` as the JSON of DDL marks."""

    xid: int
    rows: list[tuple[str, str]]
    marks: list[dict]


class Stream:
    """A slot made now; `read` takes what was committed since."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._names: dict[int, str] = {}
        (self._slot,) = connection.execute("select current_database()::text").fetchone()
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [self._slot])

    def read(self) -> list[Transaction]:
        return list(self._transactions())

    def _transactions(self) -> Iterator[Transaction]:
        rows = self._connection.execute(
            "select xid::text::bigint, data from pg_logical_slot_get_binary_changes(%s, null, null, "
            "'proto_version', '1', 'messages', 'true', 'publication_names', %s)",
            [self._slot, ",".join(watch.publications(self._connection))],
        ).fetchall()
        current = Transaction(0, [], [])
        for xid, data in rows:
            current.xid = xid
            match decode(bytes(data)):
                case Relation(oid=oid, schema=schema, name=name):
                    self._names[oid] = f"{schema}.{name}"
                case Insert(relation=oid, after=(_, kind, content)) if self._names[oid] == "_tidewire.marks":
                    current.marks += [json.loads(content)] if kind == b"ddl" else []
                case Insert() | Update() | Delete() as change:
                    current.rows.append((type(change).__name__.lower(), self._names[change.relation]))
                case Truncate(relations=relations):
                    current.rows += [("truncate", self._names[oid]) for oid in relations]
                case Commit():
                    current.rows = [row for row in current.rows if not row[1].startswith("_tidewire.")]
                    yield current
                    current = Transaction(0, [], [])
