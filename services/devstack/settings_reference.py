"""The settings reference: every section of every service, rendered from the Structs that read it.

`make settings` writes it to docs/settings.md; tests/architecture/test_settings.py compares.
"""

import argparse
import ast
import inspect
from collections.abc import Iterator
from textwrap import dedent

import msgspec
from msgspec import Struct

from services.capture.settings import Settings as Capture
from services.chassis.settings import described_keys, section_type, variable
from services.devstack.settings import PREFIX, PROJECT
from services.devstack.settings import Settings as Devstack
from services.fanout.settings import Settings as Fanout
from services.gateway.settings import Settings as Gateway
from services.recompute.settings import Settings as Recompute
from services.registry.settings import Settings as Registry
from services.retention.settings import Settings as Retention

SERVICES: dict[str, type[Struct]] = {
    "capture": Capture,
    "registry": Registry,
    "recompute": Recompute,
    "fanout": Fanout,
    "retention": Retention,
    "gateway": Gateway,
}
DOCUMENT = PROJECT / "docs" / "settings.md"
HEAD = """\
# Settings

Every service reads its settings once: from the TOML file that `TIDEWIRE_CONFIG` names, and from the environment,
which wins. A key `key` of the table `[section]` is the variable `TIDEWIRE_SECTION_KEY`; lists have commas there.
A name that is not known ends the process with a sentence. `python -m services.<service> --help` prints the same for
one service.

This page is rendered from the code by `make settings`; do not edit it.
"""


def render() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, (struct, readers) in _sections().items():
        parts.append(f"## [{name}]\n\n{_sentence(struct)} Read by {', '.join(readers)}.\n\n{_table(name, struct)}")
    parts.append(
        f"## The embedded stack\n\n{_sentence(Devstack)} Read by `make up`, `make demo` and the tests.\n\n"
        + _rows((PREFIX + key.upper(), kind, default, words) for key, kind, default, words in _keys(Devstack))
    )
    return "\n".join(parts)


def _sections() -> dict[str, tuple[type[Struct], list[str]]]:
    """Each section once, with the services that read it; a table inside of a section follows it."""
    found: dict[str, tuple[type[Struct], list[str]]] = {}
    for service, settings in SERVICES.items():
        for field in msgspec.structs.fields(settings):
            for name, struct in _with_tables(field.name, section_type(field)):
                found.setdefault(name, (struct, []))[1].append(service)
    return found


def _with_tables(name: str, struct: type[Struct]) -> Iterator[tuple[str, type[Struct]]]:
    yield name, struct
    for field in msgspec.structs.fields(struct):
        if isinstance(field.type, type) and issubclass(field.type, Struct):
            yield from _with_tables(f"{name}.{field.name}", field.type)


def _table(section: str, struct: type[Struct]) -> str:
    return _rows((variable(section, key), kind, default, words) for key, kind, default, words in _keys(struct))


def _rows(rows: Iterator[tuple[str, str, str, str]]) -> str:
    lines = [f"| `{name}` | {kind} | {default} | {words} |\n" for name, kind, default, words in rows]
    return "| variable | type | default | |\n|---|---|---|---|\n" + "".join(lines) if lines else "No keys of its own.\n"


def _keys(struct: type[Struct]) -> Iterator[tuple[str, str, str, str]]:
    comments = _comments(struct)
    for key, kind, default in described_keys(struct):
        yield key, kind.replace("|", "\\|"), _portable(default), comments.get(key, "").replace("|", "\\|")


def _portable(default: str) -> str:
    """The same on every machine: folders of this one are shown by what they are."""
    return default.replace(str(PROJECT), "<checkout>")


def _sentence(struct: type[Struct]) -> str:
    words = " ".join((inspect.getdoc(struct) or "").split())
    return words.replace("<", "&lt;").replace(">", "&gt;")


def _comments(struct: type[Struct]) -> dict[str, str]:
    """The comment above each key of a Struct."""
    source = dedent(inspect.getsource(struct))
    lines, [declared] = source.splitlines(), ast.parse(source).body
    assert isinstance(declared, ast.ClassDef)
    found = {}
    for node in declared.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            first = last = node.lineno - 1
            while first > 0 and lines[first - 1].strip().startswith("#"):
                first -= 1
            found[node.target.id] = " ".join(line.strip().removeprefix("#").strip() for line in lines[first:last])
    return found


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    DOCUMENT.write_text(render())
