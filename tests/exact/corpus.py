"""Queries on which Spark and PostgreSQL once differed, with variants: one a line, in a file for each family."""

from pathlib import Path

from tests.oracle.case import Check, Question

HERE = Path(__file__).parent
SETUP = (HERE / "setup.sql").read_text()
CHANGES = (HERE / "changes.sql").read_text()
FAMILIES = tuple(sorted(path.stem for path in (HERE / "families").glob("*.sql")))


def questions(family: str) -> list[Question]:
    lines = (HERE / "families" / f"{family}.sql").read_text().splitlines()
    return [Question(line, check=Check()) for line in lines if line]
