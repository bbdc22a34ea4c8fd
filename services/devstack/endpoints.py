"""The file that tells people and programs how to reach the running stack."""

from collections.abc import Mapping

import msgspec

from services.devstack.errors import MissingPart, StackIsDown
from services.devstack.home import Home, replace
from services.devstack.stack import Stack


def write(stack: Stack, process_ids: Mapping[str, int]) -> None:
    """Publish addresses and process ids, whole or not at all."""
    content = {
        "postgres": stack.postgres.dsn(),
        "kafka": stack.kafka.address,
        "redis": stack.redis.url,
        "gateway_pg": stack.gateway_pg,
        "gateway_http": stack.gateway_http,
        "admin_token": stack.credentials.admin_token(),
        "services": dict(process_ids),
    }
    replace(stack.home.endpoints, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def read(home: Home, field: str) -> str:
    """One address of the running stack."""
    if not home.endpoints.exists():
        raise StackIsDown(home.root)
    content = msgspec.json.decode(home.endpoints.read_bytes(), type=dict[str, object])
    if not isinstance(content.get(field), str):
        known = ", ".join(name for name, value in content.items() if isinstance(value, str))
        raise MissingPart(f"the stack has no endpoint {field!r}; it has {known}")
    return str(content[field])
