"""A change of a live result as lines for people, and as JSON for programs."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from tidewire import Change, Deleted, Initial, Inserted, Renewed, Row, Updated

# Pieces of text with the codes of their colours.
Line: TypeAlias = tuple[tuple[str, str], ...]

SHOWN_CHARACTERS = 60
GREEN, YELLOW, RED, BLUE, DIM = "32", "33", "31", "34", "2"


def line_parts(change: Change, columns: Sequence[str]) -> Iterator[Line]:
    """A line for each row that changed."""
    match change:
        case Initial(rows=rows):
            yield ((f"= the result has {_rows(len(rows))}", BLUE),)
            yield from (((f"  {_row_text(row, columns)}", DIM),) for row in rows)
        case Inserted(rows=rows):
            yield from (((f"+ {_row_text(row, columns)}", GREEN),) for row in rows)
        case Deleted(rows=rows):
            yield from (((f"- {_row_text(row, columns)}", RED),) for row in rows)
        case Updated(rows=pairs):
            for pair in pairs:
                yield (("~ ", YELLOW), *_update_parts(pair.old, pair.new, columns))
        case Renewed(because=because, inserted=inserted, deleted=deleted):
            yield ((f"= renewed: {because}", BLUE),)
            yield from line_parts(Deleted(deleted), columns)
            yield from line_parts(Inserted(inserted), columns)


def as_json(change: Change, columns: Sequence[str]) -> str:
    """One object: rows as objects by column name, or as arrays where names are missing or not unique."""
    shown: dict[str, Any] = {"change": type(change).__name__.lower()}
    match change:
        case Updated(rows=pairs):
            shown["rows"] = [{"old": _object(pair.old, columns), "new": _object(pair.new, columns)} for pair in pairs]
        case Renewed():
            shown |= {
                "because": change.because,
                "inserted": [_object(row, columns) for row in change.inserted],
                "deleted": [_object(row, columns) for row in change.deleted],
                "rows": [_object(row, columns) for row in change.rows],
            }
        case _:
            shown["rows"] = [_object(row, columns) for row in change.rows]
    return json.dumps({**shown, "lsn": change.lsn})


def value_text(value: object) -> str:
    """A value on one line, shortened."""
    if value is None:
        return "NULL"
    text = str(value).encode("utf-8", "backslashreplace").decode()
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"


def names_of(columns: Sequence[str], width: int) -> Sequence[str]:
    """The columns' names, or their numbers if the query could not be described."""
    return columns if len(columns) == width else [f"${place + 1}" for place in range(width)]


def _object(row: Row, columns: Sequence[str]) -> dict[str, Any] | list[Any]:
    if len(set(columns)) != len(row):
        return list(row)
    return dict(zip(columns, row, strict=True))


def _row_text(row: Row, columns: Sequence[str]) -> str:
    return "  ".join(
        f"{name}={value_text(value)}" for name, value in zip(names_of(columns, len(row)), row, strict=True)
    )


def _update_parts(old: Row, new: Row, columns: Sequence[str]) -> Iterator[tuple[str, str]]:
    for place, (name, before, after) in enumerate(zip(names_of(columns, len(new)), old, new, strict=True)):
        gap = "  " * (place > 0)
        if before == after:
            yield f"{gap}{name}={value_text(after)}", ""
        else:
            yield f"{gap}{name}={value_text(before)}→{value_text(after)}", YELLOW


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"
