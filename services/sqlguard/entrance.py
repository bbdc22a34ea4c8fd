"""One transaction inside a subscriber's role: his SQL is read, explained and run there, and everything is rolled back.

Every text of his goes as the argument of a fixed call to the entrance (entrance.sql); the runner's login itself parses
nothing else. Whatever his code does to the session, it has no other rights than he, and the next query none of it.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence

import psycopg
from msgspec import Struct
from psycopg import generators, pq
from psycopg.errors import error_from_result

from proto.rows import ResultRow
from services.changelog.snapshot import Snapshot
from services.sqlguard.entrance_install import Isolation
from services.sqlguard.parse_tree import Parsed, ParsedColumn, outer_columns, refuse_unless_select, told
from services.sqlguard.refusal import Refused
from services.sqlguard.runners import Runner
from services.sqlguard.statement import only_statement

# How long after its timeout a statement may still be stopping before its backend is ended.
GRACE_S = 5.0
# As many rows are taken from libpq at a time: the whole result is never held twice.
CHUNK_ROWS = 50
# A result that takes more is refused; it is not held meanwhile.
MOST_BYTES = 64 * 1024 * 1024
TOO_MANY_ROWS = "54000"
_MOMENT = b"""
SELECT pg_catalog.pg_current_snapshot()::pg_catalog.text,
       (extract(epoch FROM pg_catalog.transaction_timestamp()) OPERATOR(pg_catalog.*) 1000000)::pg_catalog.int8
"""
# Without a value of its own a parameter has the type that PostgreSQL infers; 705 is that of an undecorated literal.
_INFERRED = (0, 705)
_TEXT, _BOOLEAN = 25, 16
_TYPES = """
SELECT t.oid, pg_catalog.format_type(t.oid, -1) FROM pg_catalog.pg_type t WHERE t.oid = ANY (%s)
"""
# On the wire a domain counts as the type below it.
_BASE_TYPES = """
WITH RECURSIVE base(given, typid, typmod) AS (
    SELECT t.oid, t.oid, NULL::int FROM pg_catalog.pg_type t WHERE t.oid = ANY (%s)
    UNION ALL
    SELECT b.given, t.typbasetype, t.typtypmod FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typid
    WHERE t.typtype = 'd'
)
SELECT b.given, b.typid, b.typmod FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.typid WHERE t.typtype <> 'd'
"""
_PARAMETERS = b"""
SELECT pg_catalog.array_to_string(p.parameter_types::pg_catalog.oid[], ' ') FROM pg_catalog.pg_prepared_statements p
WHERE p.name OPERATOR(pg_catalog.=) $1
"""


class Deadlines(Struct, frozen=True):
    statement_timeout_ms: int
    lock_timeout_ms: int

    @property
    def settings(self) -> dict[str, str]:
        return {
            "statement_timeout": str(self.statement_timeout_ms),
            "lock_timeout": str(self.lock_timeout_ms),
        }


class Inside:
    """Use it within `entered`; psycopg.Error is PostgreSQL's word about the query, or the loss of the connection."""

    def __init__(self, runner: Runner, role: str, deadlines: Deadlines) -> None:
        self.service = runner.service
        self._runner, self._connection, self._deadlines = runner, runner.connection, deadlines
        self._role, self._entrance = role, ""
        self._statements = 0
        self.snapshot, self.moment_us = self._enter(role)

    def set(self, settings: Mapping[str, str]) -> None:
        """Set for the rest of the transaction, by a statement that no search_path can lead elsewhere."""
        places = range(1, 2 * len(settings), 2)
        calls = ", ".join(f"pg_catalog.set_config(${place}, ${place + 1}, true)" for place in places)
        self._execute(f"SELECT {calls}", [part.encode() for pair in settings.items() for part in pair])

    @property
    def is_superuser(self) -> bool:
        """Whether code of others that this query ran would run with all rights."""
        row = self.service.execute("SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = %s", [self._role]).fetchone()
        return row is None or bool(row[0])

    def parse(self, sql: str, parameter_types: Sequence[int] = ()) -> Parsed:
        """What PostgreSQL reads in one statement, without planning it; Refused if it is no pure SELECT."""
        statement = only_statement(sql)
        with told(self._connection, self.set) as trees:
            name = self._prepare(statement, parameter_types)
            tree = trees.last(self._execute)
            refuse_unless_select(*tree)
            # Its columns with their types are the variables of a query around it.
            self._prepare(f"SELECT * FROM (\n{statement}\n) AS result", parameter_types)
            columns = outer_columns(trees.last(self._execute)[0])
        return Parsed(
            parameter_types=self._parameter_types(name),
            columns=self._on_the_wire(columns),
            tree=tree[0],
            rewritten=tree[1],
        )

    def explain(self, sql: str, parameter_types: Sequence[int]) -> None:
        """Plan it with NULL parameters: PostgreSQL checks the rights of the role and of the owners of views."""
        name = self._prepare(only_statement(sql), parameter_types)
        values = "(" + ", ".join(["NULL"] * len(parameter_types)) + ")" if parameter_types else ""
        self._call(f"EXPLAIN (COSTS OFF) EXECUTE {name}{values}", columns=1)

    def rows(
        self,
        sql: str,
        parameter_types: Sequence[int],
        values: Sequence[bytes | None],
        *,
        columns: int,
        most: int | None = None,
    ) -> list[ResultRow]:
        """Its rows, each value as its output function prints it; Refused if there are more than `most`."""
        limit = "" if most is None else f" LIMIT {most + 1}"
        # OFFSET 0 keeps PostgreSQL from computing a column twice.
        names = ", ".join(f"c{place}" for place in range(columns))
        alias = f"printed({names})" if columns else "printed"
        text = (
            f"SELECT {_printed(columns)} FROM (SELECT * FROM (\n{only_statement(sql)}\n) AS result OFFSET 0) AS {alias}"
        )
        name = self._prepare(text + limit, parameter_types)
        # A function that ran while the statement was read may have taken the timeouts away.
        self.set(self._deadlines.settings)
        call = f"EXECUTE {name}({', '.join(map(_literal, values))})" if values else f"EXECUTE {name}"
        found = self._call(call, columns=max(columns, 1), most=most)
        return found if columns else [()] * len(found)

    def ask(self, sql: str, values: Sequence[bytes | None] = (), *, columns: int) -> list[ResultRow]:
        """A statement of our own, run with the role's rights; its columns are text."""
        name = self._prepare(sql, ())
        return self._call(
            f"EXECUTE {name}({', '.join(map(_literal, values))})" if values else f"EXECUTE {name}", columns
        )

    @contextlib.contextmanager
    def attempted(self) -> Iterator[None]:
        """An error of PostgreSQL inside the block takes back what the block did, and no more."""
        self._execute("SAVEPOINT attempt")
        try:
            yield
        except psycopg.Error:
            if self._connection.info.transaction_status == pq.TransactionStatus.INERROR:
                self._execute("ROLLBACK TO SAVEPOINT attempt")
            raise

    def _enter(self, role: str) -> tuple[Snapshot, int]:
        self._execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        snapshot, moment = self._execute(_MOMENT)[0]
        if self._runner.isolation is Isolation.ENTRANCE:
            self._entrance = (self._execute(b"SELECT _tidewire.enter()")[0][0] or b"").decode()
        self._execute("SET TRANSACTION READ ONLY")
        self.set({**self._deadlines.settings, **({} if self._entrance else {"role": role})})
        return Snapshot.parse((snapshot or b"").decode()), int(moment or 0)

    def _prepare(self, sql: str, parameter_types: Sequence[int]) -> str:
        self._statements += 1
        name = f"tidewire_{self._statements}"
        types = f" ({', '.join(self._type_names(parameter_types))})" if parameter_types else ""
        self._call(f"PREPARE {name}{types} AS {sql}", columns=0)
        return name

    def _call(self, statement: str, columns: int, most: int | None = None) -> list[ResultRow]:
        """Run a statement as the role; all its columns must be text. Without columns it gives no rows."""
        if not self._entrance:
            return self._execute(statement, most=most)
        shape = ", ".join(f"c{place} pg_catalog.text" for place in range(max(columns, 1)))
        call = f"SELECT * FROM _tidewire.{self._entrance}($1, $2) AS given({shape})"
        gives_rows = b"t" if columns else b"f"
        return self._execute(call, [statement.encode(), gives_rows], (_TEXT, _BOOLEAN), most=most)

    def _execute(
        self,
        statement: str | bytes,
        values: Sequence[bytes | None] = (),
        types: Sequence[int] = (),
        *,
        most: int | None = None,
    ) -> list[ResultRow]:
        """By the extended protocol always: of two statements in one text PostgreSQL runs neither."""
        server = self._connection.pgconn
        text = statement if isinstance(statement, bytes) else statement.encode()
        with self._ended_in_time():
            server.send_query_params(text, list(values), list(types) or None)
            server.set_chunked_rows_mode(CHUNK_ROWS)
            self._connection.wait(generators.send(server))
            return self._fetched(server, most)

    @contextlib.contextmanager
    def _ended_in_time(self) -> Iterator[None]:
        """A function can catch the cancellation by its timeout and go on: then its backend is ended."""
        overdue = threading.Event()

        def end() -> None:
            overdue.set()
            self._runner.terminate()

        timer = threading.Timer(self._deadlines.statement_timeout_ms / 1000 + GRACE_S, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except psycopg.Error as error:
            if overdue.is_set():
                self._connection.close()
                raise Refused(
                    "57014", "the statement did not end at its timeout, and its connection was closed"
                ) from error
            raise
        finally:
            timer.cancel()

    def _fetched(self, server: pq.abc.PGconn, most: int | None) -> list[ResultRow]:
        rows: list[ResultRow] = []
        size_bytes = 0
        error: psycopg.Error | None = None
        while (result := self._connection.wait(generators.fetch(server))) is not None:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                error = error_from_result(result)
            elif size_bytes <= MOST_BYTES:
                columns = range(result.nfields)
                taken = [tuple([result.get_value(row, column) for column in columns]) for row in range(result.ntuples)]
                rows += taken
                size_bytes += sum(len(value) for row in taken for value in row if value is not None)
                if size_bytes > MOST_BYTES:
                    rows.clear()
                    self._connection.cancel_safe()
        if size_bytes > MOST_BYTES:
            raise Refused(TOO_MANY_ROWS, f"the result takes more than {MOST_BYTES} bytes")
        if error is not None:
            raise error
        if most is not None and len(rows) > most:
            raise Refused(TOO_MANY_ROWS, f"the result has more than {most} rows")
        return rows

    def _parameter_types(self, name: str) -> tuple[int, ...]:
        types = self._execute(_PARAMETERS, [name.encode()], [_TEXT])[0][0] or b""
        return tuple(map(int, types.split()))

    def _type_names(self, oids: Sequence[int]) -> list[str]:
        """As SQL writes them, with their schema wherever the search_path leads."""
        wanted = {oid for oid in oids if oid not in _INFERRED}
        rows = self.service.execute(_TYPES, [list(wanted)]).fetchall() if wanted else []
        names: dict[int, str] = dict(rows)
        missing = wanted - names.keys()
        if missing:
            raise Refused("42704", f"type with OID {min(missing)} does not exist")
        return [names.get(oid, "unknown") for oid in oids]

    def _on_the_wire(self, columns: Sequence[ParsedColumn]) -> tuple[ParsedColumn, ...]:
        oids = list({column.type_oid for column in columns})
        rows = self.service.execute(_BASE_TYPES, [oids]).fetchall() if oids else []
        base = {given: (oid, modifier) for given, oid, modifier in rows}
        found = []
        for column in columns:
            oid, modifier = base.get(column.type_oid, (column.type_oid, None))
            found.append(ParsedColumn(column.name, oid, column.type_modifier if modifier is None else modifier))
        return tuple(found)


@contextlib.contextmanager
def entered(runner: Runner, role: str, deadlines: Deadlines) -> Iterator[Inside]:
    """A transaction of the role, which is rolled back at the end whatever happened in it."""
    try:
        yield Inside(runner, role, deadlines)
    finally:
        if runner.connection.info.transaction_status != pq.TransactionStatus.UNKNOWN:
            runner.connection.rollback()


def _printed(columns: int) -> str:
    """concat() prints by the type's output function; a cast to text differs for bool and char(n). NULL stays NULL."""
    if not columns:
        return "''::pg_catalog.text"
    return ", ".join(
        f"CASE WHEN pg_catalog.num_nulls(c{place}) OPERATOR(pg_catalog.=) 0 THEN pg_catalog.concat(c{place}) END"
        for place in range(columns)
    )


def _literal(value: bytes | None) -> str:
    """A parameter's text, the same under every setting of standard_conforming_strings."""
    if value is None:
        return "NULL"
    text = value.decode("utf-8", "surrogateescape").replace("\\", "\\\\").replace("'", "''")
    return f" E'{text}'"
