"""Queries of every shape over a small schema, one a line, in a file for each kind of plan."""

from pathlib import Path

HERE = Path(__file__).parent
SETUP = (HERE / "setup.sql").read_text()


def queries(kind: str) -> list[tuple[str, str]]:
    """Each query of `kind`.sql, and what stands after it in its comment."""
    lines = (HERE / f"{kind}.sql").read_text().splitlines()
    split = (line.partition("; --: ") for line in lines)
    return [(sql.removesuffix(";"), comment) for sql, _, comment in split]


def tuples(comment: str) -> tuple[tuple[str | None, ...], ...]:
    """Parameters: tuples apart by |, values by a comma."""
    return tuple(tuple(_value(value) for value in values.split(", ")) for values in comment.split(" | "))


def _value(written: str) -> str | None:
    return None if written == "NULL" else written.replace("''", "")
