"""The file that tells people and programs how to reach the running stack."""

import time
from collections.abc import Mapping

import msgspec

from services.devstack import credentials
from services.devstack.errors import MissingPart, StackIsDown
from services.devstack.home import Home, replace
from services.devstack.stack import Stack


def write(stack: Stack, process_ids: Mapping[str, int]) -> None:
    """Publish addresses and process ids, whole or not at all."""
    content = {
        "postgres": stack.postgres.dsn(),
        "kafka": stack.kafka.address,
        "kafka_topic_prefix": stack.topic_prefix,
        "redis": stack.redis.url,
        "gateway_pg": stack.gateway_pg,
        "gateway_http": stack.gateway_http,
        "admin_token": stack.credentials.admin_token(time.time()),
        "services": dict(process_ids),
    }
    _publish(stack.home, content)


def renew_token(home: Home) -> None:
    """Give the running stack's user a token for the next hours."""
    if home.endpoints.exists():
        content = msgspec.json.decode(home.endpoints.read_bytes(), type=dict[str, object])
        secret = credentials.keep(home.root / "credentials.json")
        _publish(home, {**content, "admin_token": secret.admin_token(time.time())})


def _publish(home: Home, content: Mapping[str, object]) -> None:
    replace(home.endpoints, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def read(home: Home, field: str) -> str:
    """One address of the running stack."""
    if not home.endpoints.exists():
        raise StackIsDown(home.root)
    content = msgspec.json.decode(home.endpoints.read_bytes(), type=dict[str, object])
    if not isinstance(content.get(field), str):
        known = ", ".join(name for name, value in content.items() if isinstance(value, str))
        raise MissingPart(f"the stack has no endpoint {field!r}; it has {known}")
    return str(content[field])
