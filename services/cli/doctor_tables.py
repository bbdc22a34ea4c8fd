"""How each table is captured, what that costs, and which tables cannot be."""

from typing import NamedTuple

from msgspec import Struct
from psycopg import sql

from services.capture.outbound.watch import Connection, tables_query
from services.cli.doctor_server import Level, size

# Measured on PostgreSQL 18: an UPDATE of a row writes about this much WAL beside the row itself, with an index entry.
_BESIDE_THE_ROW = 170
_IDENTITIES = {"d": "key", "i": "index", "f": "full", "n": "nothing"}


class TableFinding(Struct, frozen=True):
    """One table: how its rows are identified, what that costs, and what to do about it."""

    level: Level
    table: str
    identity: str
    cost: str = ""
    found: str = ""
    remedy: str = ""


class _Row(NamedTuple):
    title: str
    persistence: str
    desired: str
    owned: bool
    coverable: bool
    settled: bool
    stored: bool
    row_bytes: float | None
    toast_bytes: float | None


def examine_tables(connection: Connection) -> list[TableFinding]:
    """Every table that a user might expect to be captured; those in need of something first."""
    (installed,) = connection.execute("select to_regclass('_tidewire.coverage') is not null").fetchone() or (False,)
    version = connection.info.server_version
    found = [_judge(row, bool(installed), version) for row in _rows(connection)] + _foreign(connection)
    return sorted(found, key=lambda finding: (finding.level is Level.OK, finding.table))


def update_cost(row_bytes: float, toast_bytes: float) -> float:
    """How many times the WAL of an UPDATE grows when the whole old row is written too, values out of line included."""
    alone = _BESIDE_THE_ROW + row_bytes
    return (alone + row_bytes + toast_bytes) / alone


def _rows(connection: Connection) -> list[_Row]:
    query = f"""
        with coverage as ({tables_query()})
        select format('%I.%I', v.schema, v.name), v.persistence::text, v.desired::text, v.owned, v.coverable, v.settled,
               exists (select from pg_attribute a
                       where a.attrelid = v.relid and a.attgenerated = 's' and not a.attisdropped),
               case when c.reltuples > 0 then coalesce(
                   (select sum(s.avg_width) from pg_stats s where s.schemaname = v.schema and s.tablename = v.name),
                   c.relpages::float8 * current_setting('block_size')::int / c.reltuples) end::float8,
               case when c.reltuples > 0 and c.reltoastrelid <> 0
                    then pg_relation_size(c.reltoastrelid) / c.reltuples else 0 end::float8
        from coverage v join pg_class c on c.oid = v.relid
        order by 1
    """
    return [_Row(*row) for row in connection.execute(query.encode()).fetchall()]  # type: ignore[arg-type]


def _judge(row: _Row, installed: bool, version: int) -> TableFinding:
    table = row.title
    identity = _IDENTITIES[row.desired]
    if row.persistence == "u":
        return _out(table, identity, "unlogged: not in the WAL", f"ALTER TABLE {table} SET LOGGED")
    if row.desired == "n":
        name = sql.Literal(table).as_string()
        return _out(table, identity, "not tracked", f"SELECT _tidewire.track({name}), if it should be")
    if not row.coverable:
        found = "no key and a virtual generated column: updates cannot be published, queries on it go to PostgreSQL"
        return _out(table, "none", found, f"ALTER TABLE {table} ADD PRIMARY KEY (…)")
    if not row.owned:
        return _out(table, identity, "owned by another role", "grant the owner's role to this one, or use a superuser")
    return _captured(row, table, identity, installed, version)


def _captured(row: _Row, table: str, identity: str, installed: bool, version: int) -> TableFinding:
    cost, remedies, found = "", [], []
    if row.desired == "f":
        cost = _full_cost(row)
        found.append("no key: old rows are written whole")
        remedies.append(f"ALTER TABLE {table} ADD PRIMARY KEY (…)")
        if row.row_bytes is None:
            remedies.append(f"ANALYZE {table} to have the cost estimated")
    if row.stored and version < 180000:
        found.append("stored generated columns are not published before PostgreSQL 18")
    if installed and not row.settled:
        found.append("waits for a lock")
        remedies.append("end the long transaction that holds it")
    level = Level.NOTE if found else Level.OK
    return TableFinding(level, table, identity, cost, "; ".join(found), "; ".join(remedies))


def _full_cost(row: _Row) -> str:
    if row.row_bytes is None or row.toast_bytes is None:
        return "? × WAL for an UPDATE"
    times = update_cost(row.row_bytes, row.toast_bytes)
    return f"≈ {times:.3g} × WAL for an UPDATE ({size(row.row_bytes + row.toast_bytes)} a row)"


def _foreign(connection: Connection) -> list[TableFinding]:
    rows = connection.execute(
        "select format('%I.%I', n.nspname, c.relname) from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where c.relkind = 'f' order by 1"
    ).fetchall()
    found, remedy = (
        "foreign: its changes are in another server's WAL",
        "watch that server, or query it through PostgreSQL",
    )
    return [_out(str(title), "none", found, remedy) for (title,) in rows]


def _out(table: str, identity: str, found: str, remedy: str) -> TableFinding:
    return TableFinding(Level.NOTE, table, identity, "", found, remedy)
