"""The WHERE of a route over rows of the log, computed by PostgreSQL inside the role that made the route.

The expression sees the row's values under the table's name, typed as the table types them, and nothing else: no table
is read. So its meaning is PostgreSQL's own, of whatever functions, collations and settings.
"""

from collections.abc import Sequence
from secrets import token_hex

import msgspec
import psycopg
from msgspec import Struct

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.pgoutput.messages import ABSENT, Relation, Row
from services.chassis.postgres import Postgres
from services.recompute.outbound.postgres.subscriber import APPLICATION_NAME, quoted, unreachable, words_of
from services.sqlguard.entrance import Deadlines, Inside, entered
from services.sqlguard.refusal import Refused
from services.sqlguard.runners import Runners, Subscriber
from services.sqlguard.trust import examine

ROWS_AT_ONCE = 2_000
DEADLINES = Deadlines(5_000, 2_000)
_TEXT_ARRAY = 1009
_TYPES = "SELECT pg_catalog.format_type(t.oid, %s) FROM pg_catalog.pg_type t WHERE t.oid = %s"
NOT_IN_LOG = "the log does not have a value that the route's WHERE reads"
# A name that no expression has.
_SECRET = token_hex(6)


class Filter(Struct, frozen=True):
    role: str
    schema: str
    table: str
    expression: str


Verdict = bool | str


class TopicFilters:
    def __init__(self, postgres: Postgres) -> None:
        # A superuser's expression may only call what superusers and trusted owners made, which `examine` sees to.
        self._trusted = postgres.trusted_owners
        self._runners = Runners(
            msgspec.structs.replace(postgres, superusers_subscribe=True), application_name=APPLICATION_NAME
        )
        self._examined: set[tuple[Filter, Relation]] = set()

    def forget(self) -> None:
        """Something in the database is another: look at everything again."""
        self._examined.clear()

    def judge(self, filter_: Filter, relation: Relation, rows: Sequence[Row]) -> list[Verdict]:
        """Of each row whether the expression is true, or why PostgreSQL cannot say; psycopg.Error if it is away."""
        columns = _named(filter_, relation)
        verdicts: list[Verdict] = []
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = [[row[place] for place in columns] for row in rows[start : start + ROWS_AT_ONCE]]
            known = [row for row in part if ABSENT not in row]
            answers = iter(self._asked(filter_, relation, columns, known))
            verdicts += [NOT_IN_LOG if ABSENT in row else next(answers) for row in part]
        return verdicts

    def close(self) -> None:
        self._runners.close()

    def _asked(
        self, filter_: Filter, relation: Relation, columns: list[int], rows: Sequence[Sequence[object]]
    ) -> list[Verdict]:
        if not rows:
            return []
        try:
            return self._answered(filter_, relation, columns, rows)
        except Refused as refused:
            return [refused.message] * len(rows)
        except psycopg.Error as error:
            if unreachable(error):
                raise
            words = words_of(error)[1]
        if len(rows) == 1 or self._fails_always(filter_, relation, columns):
            return [words] * len(rows)
        half = len(rows) // 2
        return [
            *self._asked(filter_, relation, columns, rows[:half]),
            *self._asked(filter_, relation, columns, rows[half:]),
        ]

    def _fails_always(self, filter_: Filter, relation: Relation, columns: list[int]) -> bool:
        try:
            self._answered(filter_, relation, columns, [])
        except (Refused, psycopg.Error):
            return True
        return False

    def _answered(
        self, filter_: Filter, relation: Relation, columns: list[int], rows: Sequence[Sequence[object]]
    ) -> list[Verdict]:
        subscriber = Subscriber(login=filter_.role, role=filter_.role)
        with self._runners.borrowed(subscriber) as runner, entered(runner, filter_.role, DEADLINES) as inside:
            inside.set({**PINNED_TEXT_SETTINGS, "search_path": f"{quoted(filter_.schema)}, public"})
            statement = _statement(filter_, relation, columns, self._type_names(inside, relation))
            types = [_TEXT_ARRAY] * max(len(columns), 1)
            if (filter_, relation) not in self._examined:
                examine(inside, statement, types, trusted_owners=self._trusted)
                self._examined.add((filter_, relation))
            # Of no column there is still one array, to count the rows by.
            lists = [[row[at] for row in rows] for at in range(len(columns))] or [[b""] * len(rows)]
            found = inside.rows(statement, types, [_array(values) for values in lists], columns=1)
        true = {int(row[0]) for row in found if row[0] is not None and row[0].isdigit()}
        return [number in true for number in range(1, len(rows) + 1)]

    def _type_names(self, inside: Inside, relation: Relation) -> list[str]:
        oids = [column.type_oid for column in relation.columns]
        modifiers = [column.type_modifier for column in relation.columns]
        pairs = list(zip(oids, modifiers, strict=True))
        names = {}
        for pair in dict.fromkeys(pairs):
            row = inside.service.execute(_TYPES, [pair[1], pair[0]]).fetchone()
            if row is None:
                raise Refused("42704", f"type with OID {pair[0]} does not exist")
            names[pair] = row[0]
        return [names[pair] for pair in pairs]


def _named(filter_: Filter, relation: Relation) -> list[int]:
    """The columns that the expression may name: of the others no value is sent."""
    text = filter_.expression.lower()
    takes_all = filter_.table.lower() in text or "*" in text or "&" in text
    return [place for place, column in enumerate(relation.columns) if takes_all or column.name.lower() in text]


def _statement(filter_: Filter, relation: Relation, columns: list[int], types: Sequence[str]) -> str:
    """The arrays as rows, each column cast to its type under its name; those that are not sent are NULL."""
    count = max(len(columns), 1)
    arrays = ", ".join(f"pg_catalog.unnest(${at + 1})" for at in range(count))
    raw = ", ".join(f"v{at}_{_SECRET}" for at in range(count))
    sent = {place: at for at, place in enumerate(columns)}
    typed = ", ".join(
        f"({f'v{sent[place]}_{_SECRET}' if place in sent else 'NULL'})::{types[place]} AS {quoted(column.name)}"
        for place, column in enumerate(relation.columns)
    )
    return (
        f"SELECT n_{_SECRET}::pg_catalog.text FROM ROWS FROM ({arrays}) WITH ORDINALITY "
        f"AS given_{_SECRET}({raw}, n_{_SECRET}) CROSS JOIN LATERAL (SELECT {typed}) AS {quoted(filter_.table)} "
        f"WHERE (\n{filter_.expression}\n)"
    )


def _array(values: Sequence[object]) -> bytes:
    """As PostgreSQL reads a text[]."""
    parts = [
        b'"' + value.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"' if isinstance(value, bytes) else b"NULL"
        for value in values
    ]
    return b"{" + b",".join(parts) + b"}"
