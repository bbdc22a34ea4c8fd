"""An application: its schema, its data, how it changes them, and the queries that it would subscribe to."""

import re
from pathlib import Path

from msgspec import Struct

HERE = Path(__file__).parent
NAMES = ("shop", "chat", "billing", "monitoring")

_HEAD = re.compile(r"^--: (?P<kind>schema|data|change|query) ?(?P<name>.*?)(?: \((?P<parameters>\$1=.*)\))?$")


class Query(Struct, frozen=True):
    name: str
    sql: str
    parameters: tuple[str, ...] = ()


class Application(Struct, frozen=True):
    name: str
    schema: str
    data: str
    changes: tuple[str, ...]
    queries: tuple[Query, ...]


def read(name: str) -> Application:
    """The application in `name`.sql: sections begin with `--:` and their kind."""
    schema = data = ""
    changes: list[str] = []
    queries: list[Query] = []
    for section in re.split(r"^(?=--: )", (HERE / f"{name}.sql").read_text(), flags=re.MULTILINE)[1:]:
        head, body = section.split("\n", 1)
        match = _HEAD.match(head)
        if match is None:
            raise ValueError(f"{name}.sql: {head!r} is no section's head")
        body = body.strip()
        if match["kind"] == "schema":
            schema = body
        elif match["kind"] == "data":
            data = body
        elif match["kind"] == "change":
            changes.append(body)
        else:
            queries.append(Query(match["name"], body.rstrip(";"), _values(match["parameters"])))
    return Application(name, schema, data, tuple(changes), tuple(queries))


def _values(written: str | None) -> tuple[str, ...]:
    if written is None:
        return ()
    return tuple(part.split("=", 1)[1] for part in re.split(r", (?=\$\d+=)", written))
