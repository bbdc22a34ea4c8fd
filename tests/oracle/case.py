"""A case: a database, what happens to it, and the queries whose results must be right all the time."""

from pathlib import Path

import msgspec
from msgspec import Struct

FOUND = Path(__file__).parent / "found"


class Place(Struct, frozen=True):
    """Where a case runs: the server's major version, and how its texts are ordered: C, libc or icu."""

    version: int = 18
    locale: str = "C"

    def __str__(self) -> str:
        return f"{self.version}-{self.locale}"


class Step(Struct, frozen=True):
    """Statements of one session; `end` says what closes the transaction: COMMIT, ROLLBACK, or nothing yet."""

    statements: tuple[str, ...]
    end: str = "COMMIT"
    session: str = "main"


class Check(Struct, frozen=True):
    """What of an answer PostgreSQL itself would always give again, as the one who wrote the query knows."""

    # Result columns that hold float sums: equal but for the last digits.
    approximate: tuple[int, ...] = ()
    # The query without its LIMIT, whose rows the answer's rows must be among; empty if the LIMIT cuts at a certain row.
    among: str = ""
    # The query has an ORDER BY, which settles the sequence of the values in these columns.
    ordered_by: tuple[int, ...] = ()
    # The ORDER BY settles the place of every row.
    total_order: bool = False


class Question(Struct, frozen=True):
    sql: str
    parameters: tuple[str | None, ...] = ()
    filter: str = ""
    # Of the subscriber's connection: TimeZone, DateStyle, IntervalStyle, bytea_output, extra_float_digits.
    settings: dict[str, str] = {}
    check: Check = Check()
    name: str = ""

    @property
    def asked(self) -> str:
        """What PostgreSQL is asked for the right answer."""
        return self.filtered(self.sql)

    def filtered(self, sql: str) -> str:
        return f"SELECT * FROM ({sql}) AS result WHERE ({self.filter})" if self.filter else sql


class Case(Struct, frozen=True, kw_only=True):
    setup: tuple[str, ...]
    steps: tuple[Step, ...]
    questions: tuple[Question, ...]
    place: Place = Place()
    # What was wrong when the case was found, and where: planned (on Spark alone) or road.
    note: str = ""
    level: str = "planned"


def read(path: Path) -> Case:
    return msgspec.json.decode(path.read_bytes(), type=Case)


def write(case: Case, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(case), indent=1) + b"\n")
    return path


def found(level: str) -> list[Path]:
    """The cases that were wrong once at that level."""
    return [path for path in sorted(FOUND.glob("*.json")) if read(path).level == level]
