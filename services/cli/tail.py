"""`tidewire tail`: the changes as they come, as coloured lines or as JSON lines."""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from proto.pgoutput.messages import ABSENT, Relation, Row
from proto.positions import Seq, format_lsn
from proto.streams.changes import (
    ChangeEvent,
    ChangeUnwritable,
    HistoryBegan,
    RowChanged,
    SchemaChanged,
    Truncated,
)
from services.changelog.follower import ChangesFollower
from services.chassis.kafka import Kafka

WAIT_S = 0.5
SHOWN_VALUE_CHARACTERS = 60
COLOURS = {
    "insert": "32",
    "update": "33",
    "delete": "31",
    "truncate": "35",
    "ddl": "36",
    "history": "41",
    "error": "41",
}


def run(kafka: Kafka, *, start: str, exit_at_end: bool, as_json: bool, colour: bool) -> int:
    follower = ChangesFollower(kafka, client_id="tidewire-tail")
    try:
        _begin(follower, start)
        end = follower.end() if exit_at_end else None
        show = _show_json if as_json else _liner(colour)
        for event in _events(follower, end):
            show(event)
    finally:
        follower.close()
    return 0


def _begin(follower: ChangesFollower, start: str) -> None:
    match start:
        case "earliest":
            follower.from_earliest()
        case "latest":
            follower.from_latest()
        case seq:
            follower.from_seq(Seq(int(seq)))


def _events(follower: ChangesFollower, end: int | None) -> Iterator[ChangeEvent]:
    while end is None or follower.offset < end:
        yield from follower.read(WAIT_S)
        sys.stdout.flush()


def _show_json(event: ChangeEvent) -> None:
    match event:
        case RowChanged() | Truncated() | ChangeUnwritable():
            # Bytes that are not UTF-8 exist only in SQL_ASCII databases; they come out as escaped surrogates.
            sys.stdout.write(json.dumps(change_object(event)) + "\n")
        case SchemaChanged() | HistoryBegan():
            sys.stderr.write("".join(text for text, _ in _note(event)) + "\n")


def change_object(event: RowChanged | Truncated | ChangeUnwritable) -> dict[str, Any]:
    """A change as `--json` shows it; columns whose value the log does not carry are listed, not made up."""
    shown: dict[str, Any] = {
        "seq": event.seq,
        "commit_lsn": format_lsn(event.commit_lsn),
        "xid": event.xid,
        "schema": event.relation.schema,
        "table": event.relation.name,
        "op": operation(event),
        "before": None,
        "after": None,
        "ordinal": event.ordinal,
        "commit_time": timestamp(event.commit_time_us),
    }
    if isinstance(event, RowChanged):
        shown["before"], shown["after"] = _image(event.relation, event.before), _image(event.relation, event.after)
        unchanged = _absent(event.relation, event.after)
        if unchanged:
            shown["unchanged"] = unchanged
    if isinstance(event, ChangeUnwritable):
        shown["error"] = event.reason
    return shown


def operation(event: RowChanged | Truncated | ChangeUnwritable) -> str:
    match event:
        case RowChanged():
            return event.operation
        case Truncated():
            return "truncate"
        case ChangeUnwritable():
            return "error"


def timestamp(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="microseconds")


def _image(relation: Relation, row: Row | None) -> dict[str, str | None] | None:
    if row is None:
        return None
    return {
        column.name: None if value is None else value.decode("utf-8", "surrogateescape")
        for column, value in zip(relation.columns, row, strict=True)
        if value is not ABSENT
    }


def _absent(relation: Relation, row: Row | None) -> list[str]:
    return [
        column.name for column, value in zip(relation.columns, row or (), strict=row is not None) if value is ABSENT
    ]


def _liner(colour: bool) -> Callable[[ChangeEvent], None]:
    def show(event: ChangeEvent) -> None:
        line = coloured(line_parts(event), colour)
        if line:
            sys.stdout.write(line + "\n")

    return show


def coloured(parts: Iterator[tuple[str, str]], colour: bool) -> str:
    """The line of these pieces, with or without their colours, in what a terminal can print."""
    line = "".join(f"\x1b[{code}m{text}\x1b[0m" if code and colour else text for text, code in parts)
    return line.encode("utf-8", "backslashreplace").decode()


def line_parts(event: ChangeEvent) -> Iterator[tuple[str, str]]:
    """A line for people, as pieces of text with the code of their colour."""
    match event:
        case RowChanged() | Truncated() | ChangeUnwritable():
            name = operation(event)
            yield f"{timestamp(event.commit_time_us)[11:23]} {format_lsn(event.commit_lsn)} ", "2"
            yield f"#{event.seq} ", "1"
            yield f"{name.upper():<8} ", COLOURS[name]
            yield f"{event.relation.schema}.{event.relation.name} ", "1"
            if isinstance(event, RowChanged):
                yield _row_text(event), ""
            elif isinstance(event, ChangeUnwritable):
                yield event.reason, COLOURS["error"]
        case SchemaChanged() | HistoryBegan():
            yield from _note(event)


def _note(event: SchemaChanged | HistoryBegan) -> Iterator[tuple[str, str]]:
    if isinstance(event, HistoryBegan):
        yield f"history {event.history} of {event.database} begins at {format_lsn(event.lsn)}: {event.because}", "1"
        return
    yield f"{format_lsn(event.commit_lsn)} ", "2"
    yield f"DDL {_described(event.description)}", COLOURS["ddl"]


def _described(description: bytes) -> str:
    """The command and what it touched; a mark that cannot be read is shown as such and ends nothing."""
    try:
        mark = orjson.loads(description)
        named = (thing.get("identity") or thing.get("name") or thing.get("type") for thing in mark.get("objects", []))
        return f"{mark.get('tag')} {', '.join(sorted({str(name) for name in named if name}))}"
    except (ValueError, TypeError, AttributeError):
        return f"that cannot be read: {description[:80]!r}"


def _row_text(event: RowChanged) -> str:
    before = dict(zip(event.relation.columns, event.before or (), strict=event.before is not None))
    parts = []
    for column, value in zip(event.relation.columns, event.after or event.before or (), strict=True):
        if value is ABSENT:
            continue
        old = before.get(column, ABSENT)
        changed = event.operation == "update" and old is not ABSENT and old != value
        parts.append(
            f"{column.name}={_value_text(old)}→{_value_text(value)}"
            if changed
            else f"{column.name}={_value_text(value)}"
        )
    return "  ".join(parts)


def _value_text(value: object) -> str:
    if not isinstance(value, bytes):
        return "NULL"
    text = value[: SHOWN_VALUE_CHARACTERS * 4].decode("utf-8", "backslashreplace")
    return text if len(text) <= SHOWN_VALUE_CHARACTERS else f"{text[:SHOWN_VALUE_CHARACTERS]}… ({len(value)} bytes)"
