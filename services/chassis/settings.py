"""Settings: one frozen Struct per service, read once from a TOML file and the environment."""

import difflib
import os
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import NODEFAULT, Struct

PREFIX = "TIDEWIRE_"
FILE_VARIABLE = "TIDEWIRE_CONFIG"
SECTIONS = (
    "kafka",
    "redis",
    "postgres",
    "http",
    "seal",
    "capture",
    "registry",
    "recompute",
    "source",
    "replica",
    "fanout",
    "gateway",
    "cdc",
    "topics",
    "subscriptions",
    "retention",
    "devstack",
)

T = TypeVar("T", bound=Struct)
Tables = dict[str, dict[str, Any]]


class BadSetting(Exception):
    """A setting is missing, unknown or unreadable; the message is one sentence that names it and says what to do."""

    exit_code, retry = 2, False


def load(settings_type: type[T], environ: Mapping[str, str]) -> T:
    """Read the file named by TIDEWIRE_CONFIG, lay the environment over it, and build the service's settings."""
    tables = _from_file(environ.get(FILE_VARIABLE, ""))
    for section, keys in _from_environment(environ).items():
        tables.setdefault(section, {}).update(keys)
    sections: dict[str, object] = {}
    for field in msgspec.structs.fields(settings_type):
        if field.name in tables or field.required:
            sections[field.name] = _section(field.name, section_type(field), tables.get(field.name, {}))
    return settings_type(**sections)


def describe(settings_type: type[Struct]) -> str:
    """Every variable of these settings with its type and default, one a line, for `--help`."""
    rows = [(FILE_VARIABLE, "path of a TOML file with the tables below; variables override it")]
    for section in msgspec.structs.fields(settings_type):
        rows += _described(section.name, section_type(section))
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in rows)


def variable(section: str, key: str) -> str:
    """The environment variable of a key: TIDEWIRE_<SECTION>_<KEY>, also where the section is a table in another one."""
    return f"{PREFIX}{section}_{key}".replace(".", "_").upper()


def refuse_absent_files(section: str, **paths: str | None) -> None:
    """For a section's __post_init__: a key that names a file must name one that is there."""
    for key, path in paths.items():
        if path is not None and not os.path.exists(path):
            raise ValueError(f"{key} names {path!r}, which is not there: mend {variable(section, key)}")


def section_type(field: msgspec.structs.FieldInfo) -> type[Struct]:
    """The Struct of a section's field, also where the section may be None."""
    for candidate in typing.get_args(field.type) or (field.type,):
        if isinstance(candidate, type) and issubclass(candidate, Struct):
            return candidate
    raise TypeError(f"the settings field {field.name!r} is not a section Struct")


def _from_file(path: str) -> Tables:
    if not path:
        return {}
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise BadSetting(
            f"{FILE_VARIABLE} names {path!r}, which cannot be read ({error.strerror}): mend or unset it"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"the settings file {path!r} is not TOML ({error}): mend that line") from error
    for name, value in content.items():
        if name not in SECTIONS:
            raise BadSetting(f"unknown section [{name}] in {path!r}: {_nearest(name, SECTIONS, '[{}]')}")
        if not isinstance(value, dict):
            raise BadSetting(f"{name!r} in {path!r} must be a table: write [{name}] and its keys below it")
    return content


def _from_environment(environ: Mapping[str, str]) -> Tables:
    tables: Tables = {}
    for name, value in environ.items():
        if not name.startswith(PREFIX) or name == FILE_VARIABLE:
            continue
        section, _, key = name.removeprefix(PREFIX).lower().partition("_")
        if section not in SECTIONS:
            known = [f"{PREFIX}{known}_{key}".upper() for known in SECTIONS] + [FILE_VARIABLE]
            raise BadSetting(f"unknown setting {name}: {_nearest(name, known, '{}')}")
        tables.setdefault(section, {})[key] = value
    return tables


def described_keys(struct: type[Struct]) -> Iterator[tuple[str, str, str]]:
    """Key, type and default of each key of a section that is no table of its own."""
    tables = _tables(struct)
    for key in msgspec.structs.fields(struct):
        if key.name not in tables:
            yield key.name, _type_name(key.type), _default(key).removeprefix("default ")


def _described(section: str, struct: type[Struct]) -> Iterator[tuple[str, str]]:
    tables = _tables(struct)
    for key in msgspec.structs.fields(struct):
        if key.name in tables:
            yield from _described(f"{section}.{key.name}", tables[key.name])
        else:
            yield variable(section, key.name), f"{_type_name(key.type)}, {_default(key)}"


def _tables(struct: type[Struct]) -> dict[str, type[Struct]]:
    """The keys of a section that are tables of their own: [section.key] in the file."""
    fields = msgspec.structs.fields(struct)
    return {
        field.name: field.type for field in fields if isinstance(field.type, type) and issubclass(field.type, Struct)
    }


def _gathered(section: str, struct: type[Struct], given: Mapping[str, Any]) -> dict[str, Any]:
    """The keys as the struct has them: the environment knows no tables, so <TABLE>_<KEY> goes into its table."""
    gathered = dict(given)
    for table in _tables(struct):
        inner = gathered.pop(table, {})
        if not isinstance(inner, dict):
            raise BadSetting(
                f"{table!r} under [{section}] must be a table: write [{section}.{table}] and its keys below it"
            )
        flat = [key for key in gathered if key.startswith(f"{table}_")]
        inner = inner | {key.removeprefix(f"{table}_"): gathered.pop(key) for key in flat}
        if inner:
            gathered[table] = inner
    return gathered


def _section(section: str, struct: type[Struct], given: Mapping[str, Any]) -> Struct:
    fields, tables = {field.name: field for field in msgspec.structs.fields(struct)}, _tables(struct)
    given = _gathered(section, struct, given)
    for key in given:
        if key not in fields:
            known = [name for name, _ in _described(section, struct)]
            raise BadSetting(
                f"unknown setting {variable(section, key)}: {_nearest(variable(section, key), known, '{}')}"
            )
    for key, field in fields.items():
        if field.required and key not in given:
            raise BadSetting(
                f"missing setting: set {variable(section, key)} or {key!r} under [{section}] in the settings file"
            )
    values = {
        key: _section(f"{section}.{key}", tables[key], value)
        if key in tables
        else _converted(section, fields[key], value)
        for key, value in given.items()
    }
    try:
        return struct(**values)
    except ValueError as error:
        raise BadSetting(f"bad settings in [{section}]: {error}") from error


def _converted(section: str, field: msgspec.structs.FieldInfo, value: object) -> object:
    if isinstance(value, str) and _is_list(field.type):
        value = [item.strip() for item in value.split(",") if item.strip()]
    try:
        return msgspec.convert(value, field.type, strict=False)
    except msgspec.ValidationError as error:
        raise BadSetting(f"bad value of {variable(section, field.name)}: {error}") from error


def _is_list(declared: object) -> bool:
    return typing.get_origin(declared) in (list, tuple, set, frozenset)


def _nearest(name: str, known: Iterable[str], form: str) -> str:
    names = sorted(known)
    for match in difflib.get_close_matches(name, names, n=1, cutoff=0.6):
        return f"did you mean {form.format(match)}?"
    return f"known are {', '.join(form.format(known_name) for known_name in names)}"


def _type_name(declared: Any) -> str:
    if isinstance(declared, types.UnionType) or typing.get_origin(declared) is typing.Union:
        return " or ".join(_alternatives(declared))
    if typing.get_origin(declared) is typing.Literal:
        return " or ".join(str(choice) for choice in typing.get_args(declared))
    if typing.get_origin(declared) is typing.Annotated:
        return _type_name(typing.get_args(declared)[0])
    if _is_list(declared):
        return f"{_type_name(typing.get_args(declared)[0])} list, comma-separated"
    return getattr(declared, "__name__", str(declared))


def _alternatives(union: object) -> Iterator[str]:
    return (_type_name(member) for member in typing.get_args(union) if member is not type(None))


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    default = field.default if field.default_factory is NODEFAULT else field.default_factory()
    if default is None or default == "":
        return "not set by default"
    return f"default {default!r}" if isinstance(default, str) else f"default {default}"
