"""The settings that the Helm chart passes on, as the part of its values.schema.json that is rendered from the code.

`make settings` writes it; tests/chart/test_settings.py compares. So a name or type that a service does not know is
refused by `helm install`, and a new setting is known to the chart at once.
"""

import json
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from services.chassis.settings import section_type, variable
from services.devstack.settings import PROJECT
from services.devstack.settings_reference import SERVICES

SCHEMA = PROJECT / "charts" / "tidewire" / "values.schema.json"
# Sections that have values of their own in the chart, and so do these keys.
OWN_SECTIONS = ("postgres", "kafka", "redis", "seal", "http")
OWN_KEYS = {
    *(f"TIDEWIRE_RECOMPUTE_{key}" for key in ("FOLDER", "MASTER", "DRIVER_MEMORY", "STANDBY", "WORKER_ID")),
    *(f"TIDEWIRE_GATEWAY_{key}" for key in ("HOST", "PORT", "TLS_CERTIFICATE", "TLS_KEY", "TLS_REQUIRED")),
    *(f"TIDEWIRE_GATEWAY_HTTP_{key}" for key in ("HOST", "PORT", "HOSTS", "CORS_ORIGINS", "JWT_SECRET", "JWKS_URL")),
}
# Of one machine or one process, so of no use to several pods; and a file that no value mounts.
NOT_PASSED_ON = {
    "TIDEWIRE_GATEWAY_SHARE_PORT",
    "TIDEWIRE_GATEWAY_DELIVERY_PARTITION",
    "TIDEWIRE_GATEWAY_HTTP_JWKS_FILE",
}
_NAMES = {int: "integer", float: "number", bool: "boolean", str: "string"}


def passed_on(service: str) -> dict[str, dict[str, Any]]:
    """Each variable of a service that `components.<service>.settings` may have, with the schema of its value."""
    found: dict[str, dict[str, Any]] = {}
    for field in msgspec.structs.fields(SERVICES[service]):
        if field.name not in OWN_SECTIONS:
            found |= dict(_keys(field.name, section_type(field)))
    return {name: found[name] for name in sorted(found) if name not in OWN_KEYS | NOT_PASSED_ON}


def render(text: str) -> str:
    """The schema with the settings as the code has them now."""
    schema = json.loads(text)
    components = schema["properties"]["components"]["properties"]
    for service in SERVICES:
        components[service]["properties"]["settings"] = {
            "type": "object",
            "description": f"Settings of {service}, by their variables (docs/settings.md).",
            "additionalProperties": False,
            "properties": passed_on(service),
        }
    return json.dumps(schema, indent=2) + "\n"


def _keys(section: str, struct: type[Struct]) -> Iterator[tuple[str, dict[str, Any]]]:
    for key in msgspec.structs.fields(struct):
        if isinstance(key.type, type) and issubclass(key.type, Struct):
            yield from _keys(f"{section}.{key.name}", key.type)
        else:
            yield variable(section, key.name), _schema(key.type)


def _schema(declared: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if isinstance(declared, types.UnionType) or origin is typing.Union:
        [only] = [each for each in arguments if each is not type(None)]
        return _schema(only)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin is typing.Annotated:
        return _schema(arguments[0])
    if origin in (tuple, list, frozenset, set):
        return {"type": "array", "items": _schema(arguments[0])}
    return {"type": _NAMES[declared]}


def main() -> None:
    SCHEMA.write_text(render(SCHEMA.read_text()))


if __name__ == "__main__":
    main()
