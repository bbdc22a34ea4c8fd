"""The file that tells people and programs how to reach the running stack."""

from collections.abc import Mapping

import msgspec

from services.devstack.home import replace
from services.devstack.stack import Stack


def write(stack: Stack, process_ids: Mapping[str, int]) -> None:
    """Publish addresses and process ids, whole or not at all."""
    content = {
        "postgres": stack.postgres.dsn(),
        "kafka": stack.kafka.address,
        "redis": stack.redis.url,
        "admin_token": stack.credentials.admin_token(),
        "services": dict(process_ids),
    }
    replace(stack.home.endpoints, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
