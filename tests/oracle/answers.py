"""PostgreSQL's answers, and whether another answer may stand beside one of them."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg.pq import ExecStatus

from proto.rows import ResultRow
from proto.tidewire.v1.commands_pb2 import TextSettings
from tests.oracle.case import Check, Question

# What a question's connection has if the question does not say else.
SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
# The digits in which float sums of a few rows may differ by the order of the rows.
NEAR = 1e-9


class Answer(Struct, frozen=True):
    """Rows in PostgreSQL's order, or the SQLSTATE of its error; `among`: what an uncertain LIMIT chose from."""

    rows: tuple[ResultRow, ...] = ()
    error: str = ""
    message: str = ""
    among: tuple[ResultRow, ...] = ()

    def says(self, message: str) -> bool:
        """Whether it is an error with these words."""
        return bool(self.error) and message in self.message


def text_settings(question: Question) -> TextSettings:
    chosen = SETTINGS | question.settings
    return TextSettings(
        time_zone=chosen["TimeZone"],
        date_style=chosen["DateStyle"],
        interval_style=chosen["IntervalStyle"],
        bytea_output=chosen["bytea_output"],
        extra_float_digits=int(chosen["extra_float_digits"]),
    )


def ask(connection: psycopg.Connection, question: Question) -> Answer:
    """PostgreSQL's own answer, in a transaction of the connection's own or in one that is open."""
    with connection.transaction():
        for name, value in (SETTINGS | question.settings).items():
            connection.execute(sql.SQL("SET LOCAL {} = {}").format(sql.Identifier(name), value))
        answer = _run(connection, question.asked, question.parameters)
        if answer.error or not question.check.among:
            return answer
        among = _run(connection, question.filtered(question.check.among), question.parameters)
        return Answer(answer.rows, among=among.rows)


def _run(connection: psycopg.Connection, text: str, parameters: Sequence[str | None]) -> Answer:
    values = [None if value is None else value.encode() for value in parameters]
    connection.execute("SAVEPOINT asked")
    result = connection.pgconn.exec_params(text.encode(), values or None)
    if result.status != ExecStatus.TUPLES_OK:
        connection.execute("ROLLBACK TO asked")
        return Answer(error=(result.error_field(ord("C")) or b"XX000").decode(), message=result.error_message.decode())
    width = range(result.nfields)
    return Answer(tuple(tuple(result.get_value(row, at) for at in width) for row in range(result.ntuples)))


def difference(check: Check, right: Answer, rows: Sequence[ResultRow], *, in_order: bool = False) -> str:
    """What is wrong with `rows` as an answer; empty if PostgreSQL might have said so itself."""
    if right.error:
        return f"PostgreSQL says error {right.error} ({right.message.strip()}), found {_shown(rows)}"
    if check.among:
        wrong = _not_among(check, right, rows)
    elif check.approximate:
        wrong = "" if _near(check.approximate, right.rows, rows) else _unequal(right.rows, rows)
    else:
        wrong = "" if Counter(right.rows) == Counter(rows) else _unequal(right.rows, rows)
    if not wrong and in_order and check.total_order and list(right.rows) != list(rows):
        wrong = f"in the order {_shown(rows)} instead of {_shown(right.rows)}"
    if not wrong and in_order and check.ordered_by:
        placed = [tuple(row[at] for at in check.ordered_by) for row in right.rows]
        if placed != [tuple(row[at] for at in check.ordered_by) for row in rows]:
            wrong = f"in the order {_shown(rows)} instead of {_shown(right.rows)}"
    return wrong


def _not_among(check: Check, right: Answer, rows: Sequence[ResultRow]) -> str:
    if len(rows) != len(right.rows):
        return _unequal(right.rows, rows)
    settled = set(range(len(rows[0]))) - set(check.approximate) if rows else set()
    strange = Counter(_only(rows, settled)) - Counter(_only(right.among, settled))
    if strange:
        return f"{_shown(strange)} cannot be in the result {_shown(right.among)}"
    if Counter(_only(rows, check.ordered_by)) != Counter(_only(right.rows, check.ordered_by)):
        return _unequal(right.rows, rows)
    return ""


def _only(rows: Iterable[ResultRow], places: Iterable[int]) -> list[ResultRow]:
    return [tuple(row[at] for at in places) for row in rows]


def _near(approximate: tuple[int, ...], right: Sequence[ResultRow], rows: Sequence[ResultRow]) -> bool:
    if len(right) != len(rows):
        return False
    left = sorted(rows, key=lambda row: _place(approximate, row))
    for one, other in zip(sorted(right, key=lambda row: _place(approximate, row)), left, strict=True):
        for at, (this, that) in enumerate(zip(one, other, strict=True)):
            if this == that:
                continue
            if at not in approximate or this is None or that is None:
                return False
            if not math.isclose(float(this), float(that), rel_tol=NEAR, abs_tol=NEAR):
                return False
    return True


def _place(approximate: tuple[int, ...], row: ResultRow) -> tuple[list[tuple[bool, bytes]], list[float]]:
    exact = [(value is None, value or b"") for at, value in enumerate(row) if at not in approximate]
    return exact, [math.inf if row[at] is None else float(row[at] or b"0") for at in approximate]


def _unequal(right: Sequence[ResultRow], rows: Sequence[ResultRow]) -> str:
    missing, strange = Counter(right) - Counter(rows), Counter(rows) - Counter(right)
    return f"missing {_shown(missing)}, too many {_shown(strange)}"


def _shown(rows: Iterable[ResultRow], most: int = 6) -> str:
    listed = [tuple(None if value is None else value.decode(errors="replace") for value in row) for row in rows]
    return f"{listed[:most]}{f' and {len(listed) - most} more' if len(listed) > most else ''}"
