"""PostgreSQL's own regression files as questions: their statements run in order, and each SELECT is asked of Spark too.

The answers are those of the session that runs the file, under the settings that the file has set.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
from msgspec import Struct
from psycopg.pq import ExecStatus, TransactionStatus

from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import Owner, Subscribe, TextSettings
from proto.tidewire.v1.queries_pb2 import Query
from services.registry.core.identity import query_of
from services.sqlguard.meaning import BROUGHT
from tests.oracle.local import Local, Outcome

# What psql does itself is not done here, nor what begins with it: \set, \gset, \d …
_TOKEN = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<escaped>[eE]'(?:[^'\\]|\\.|'')*')|(?P<quoted>'(?:[^']|'')*')"""
    r"""|(?P<named>"(?:[^"]|"")*")|(?P<dollar>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)|(?P<end>;)|(?P<command>\\[^\n]*)"""
    r"""|(?P<atomic>\bBEGIN\s+ATOMIC\b.*?\bEND\b)|(?P<cast>::)|(?P<variable>:['"{a-z_])|(?P<word>\w+)|(?P<other>.)""",
    re.DOTALL | re.IGNORECASE,
)
_SELECT = re.compile(r"\s*(?:\(\s*)*(?:select|with|values|table)\b", re.IGNORECASE)
# What leaves data and settings as they are.
_HARMLESS = re.compile(r"\s*(?:\(\s*)*(?:select|values|table|explain|show)\b", re.IGNORECASE)
# PostgreSQL takes STDOUT for STDIN here too.
_FROM_STDIN = re.compile(r"\s*copy\b.*\bfrom\s+std(?:in|out)\b", re.IGNORECASE | re.DOTALL)
_TEXTS = ("TimeZone", "DateStyle", "IntervalStyle", "bytea_output", "extra_float_digits")
_STATE = "SELECT current_user, array_to_json(current_schemas(false))::text, " + ", ".join(
    f"current_setting('{name}')" for name in (*_TEXTS, *BROUGHT)
)
_ONLY_HERE = """
SELECT current_setting('standard_conforming_strings') = 'off'
       OR coalesce(current_setting('restrict_nonsystem_relation_kind', true), '') <> '',
       ARRAY(SELECT relname::text FROM pg_class WHERE relnamespace = pg_my_temp_schema()
             UNION SELECT typname FROM pg_type WHERE typnamespace = pg_my_temp_schema()
             UNION SELECT 'pg_temp')
"""
SUPERUSER = "postgres"
SYNTAX_ERROR = "42601"
# Of refusals that are Tidewire's: effects, and code that is not trusted.
OUR_OWN = ("0A000", "42501")


class Told(Struct, frozen=True):
    """What PostgreSQL said to a SELECT."""

    rows: tuple[ResultRow, ...] = ()
    sqlstate: str = ""


class Report(Struct):
    wrong: list[str]
    strategies: Counter[str]
    reasons: Counter[str]

    @property
    def asked(self) -> int:
        return self.strategies.total()

    @property
    def on_spark(self) -> int:
        return self.strategies["row-local"] + self.strategies["full"]


def statements(text: str) -> Iterator[tuple[str, str]]:
    """Each statement of a file with the data that follows it, if it copies any; what psql completes is left out."""
    place, begun, is_whole = 0, 0, True
    while place < len(text):
        found = _TOKEN.match(text, place)
        assert found is not None
        place = found.end()
        if found["command"]:
            begun, is_whole = place, True
        elif found["comment"] and not text[begun : found.start()].strip():
            begun = place
        elif found["variable"]:
            is_whole = False
        elif found["end"]:
            sql, data, begun = text[begun : found.start()], "", place
            if _FROM_STDIN.match(sql):
                line = text.find("\n", place) + 1
                end = text.find("\n\\.", line - 1)
                if end < 0:
                    return
                data, begun = text[line : end + 1], end + 3
                place = begun
            if is_whole and sql.strip():
                yield sql, data
            is_whole = True


class Session:
    """Runs a file on a connection of its own; SELECTs are gathered until something changes what they read."""

    def __init__(self, local: Local, dsn: str, report: Report) -> None:
        self._local, self._report = local, report
        self._connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
        self._connection.add_notice_handler(lambda _: None)
        for setting in (
            "statement_timeout = '10s'",
            "TimeZone = 'PST8PDT'",
            "DateStyle = 'Postgres, MDY'",
            "IntervalStyle = 'postgres_verbose'",
        ):
            self._connection.execute(f"SET {setting}")
        self._state: tuple[str, ...] | None = None
        self._gathered: list[tuple[Query, Told, str]] = []
        self._is_changed = True

    def run(self, path: Path) -> None:
        for sql, data in statements(path.read_text(errors="replace")):
            if not _HARMLESS.match(sql):
                self._flush()
                self._state, self._is_changed = None, True
            told = self._execute(sql, data)
            is_open = self._connection.info.transaction_status != TransactionStatus.IDLE
            if told is not None and _SELECT.match(sql) and not is_open and "\0" not in sql:
                self._gather(sql, told, path.stem)
        self._flush()

    def close(self) -> None:
        self._connection.close()

    def _pass_over_copy(self) -> None:
        """Read a COPY TO STDOUT to its end, and what the server says behind it."""
        pgconn = self._connection.pgconn
        while pgconn.get_copy_data(0)[0] > 0:
            pass
        while pgconn.get_result() is not None:
            pass

    def _execute(self, sql: str, data: str) -> Told | None:
        if data or _FROM_STDIN.match(sql):
            try:
                with self._connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
                    copy.write(data.encode())
            except psycopg.Error:
                return None
            return None
        result = self._connection.pgconn.exec_(sql.encode())
        if result.status == ExecStatus.TUPLES_OK:
            width = range(result.nfields)
            return Told(tuple(tuple(result.get_value(row, at) for at in width) for row in range(result.ntuples)))
        if result.status == ExecStatus.FATAL_ERROR:
            return Told(sqlstate=(result.error_field(ord("C")) or b"").decode())
        if result.status == ExecStatus.COPY_OUT:
            self._pass_over_copy()
        if result.status == ExecStatus.COPY_IN:
            raise RuntimeError(f"COPY FROM STDIN that was not seen as such: {sql}")
        return None

    def _gather(self, sql: str, told: Told, file: str) -> None:
        if self._state is None:
            row = self._connection.execute(_STATE).fetchone()
            assert row is not None
            self._state = tuple(row)
        role, schemas, *settings = self._state
        # A text that is no SQL is refused by the gateway, which reads it before literals and comments leave it.
        if role != SUPERUSER or told.sqlstate == SYNTAX_ERROR or self._is_of_this_session(sql):
            return
        named = dict(zip((*_TEXTS, *BROUGHT), settings, strict=True))
        query = query_of(
            Subscribe(
                sql=sql.strip(),
                owner=Owner(role=role, login=role, connection_id="regression"),
                text_settings=TextSettings(
                    time_zone=named["TimeZone"],
                    date_style=named["DateStyle"],
                    interval_style=named["IntervalStyle"],
                    bytea_output=named["bytea_output"],
                    extra_float_digits=int(named["extra_float_digits"]),
                ),
                search_path=[word.strip('" ') for word in schemas.strip("[]").split(",") if word],
                settings_read={name: named[name] for name in BROUGHT},
            )
        )
        self._gathered.append((query, told, file))

    def _is_of_this_session(self, sql: str) -> bool:
        """Whether it may mean what only this session has, or is under; the gateway refuses such a subscribe."""
        row = self._connection.execute(_ONLY_HERE).fetchone()
        assert row is not None
        is_restricted, names = row
        return is_restricted or not set(names).isdisjoint(re.findall(r"\w+", sql.lower()))

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        # Subscribers of the same query share a result, so it is evaluated once.
        unique = list({query.query_id: query for query, _, _ in gathered}.values())
        outcomes = self._local.outcomes_of(unique, are_tables_as_before=not self._is_changed)
        by_query = {query.query_id: outcome for query, outcome in zip(unique, outcomes, strict=True)}
        self._is_changed = False
        for query, told, file in gathered:
            outcome = by_query[query.query_id]
            self._report.strategies[outcome.strategy] += 1
            if outcome.strategy in ("source", "gave up", "stumbled"):
                self._report.reasons[outcome.why[:60]] += 1
            words = wrong(told, outcome)
            if words:
                self._report.wrong.append(f"{file}: {query.sql}\n    {words}")


def wrong(told: Told, outcome: Outcome) -> str:
    """What is wrong with what Spark says; empty if PostgreSQL is asked in its place."""
    if outcome.strategy == "stumbled":
        return f"the planner stumbled: {outcome.why}"
    if outcome.strategy == "refused" and told.sqlstate and outcome.sqlstate not in (told.sqlstate, *OUR_OWN):
        return f"refused with {outcome.sqlstate} ({outcome.why}), PostgreSQL says {told.sqlstate}"
    if outcome.rows is None:
        return ""
    if told.sqlstate:
        return f"PostgreSQL says error {told.sqlstate}, Spark {outcome.rows[:5]}"
    if not outcome.is_settled:
        return "" if len(told.rows) == len(outcome.rows) else f"{len(outcome.rows)} rows, not {len(told.rows)}"
    missing, surplus = Counter(told.rows) - Counter(outcome.rows), Counter(outcome.rows) - Counter(told.rows)
    return f"missing {list(missing)[:5]}, too many {list(surplus)[:5]}" if missing or surplus else ""
