"""The first retained offset of each partition in Redis, by which the gateway answers `trimmed`; it never falls."""

from collections.abc import Iterable

import redis

from services.chassis.kafka import Kafka

_RAISE = """
local held = tonumber(redis.call('GET', KEYS[1]) or '-1')
if tonumber(ARGV[1]) > held then redis.call('SET', KEYS[1], ARGV[1]) end
return redis.call('GET', KEYS[1])
"""


class Horizons:
    def __init__(self, client: redis.Redis, kafka: Kafka) -> None:
        self._client, self._base = client, f"tidewire:{kafka.topic_prefix}topics:earliest:"

    def earliest(self, topic_id: str, partition: int) -> int:
        held = self._client.get(self._key(topic_id, partition))
        return int(held) if isinstance(held, bytes) else 0

    def put(self, topic_id: str, partition: int, earliest: int) -> None:
        self._client.eval(_RAISE, 1, self._key(topic_id, partition), str(earliest))

    def leftovers(self, topic_ids: Iterable[str]) -> list[str]:
        """Keys of topics that are gone."""
        known = set(topic_ids)
        found = []
        for key in self._client.scan_iter(match=self._base.replace("*", "\\*") + "*", count=1000):
            name = key.decode()
            if name.removeprefix(self._base).rpartition(":")[0] not in known:
                found.append(name)
        return sorted(found)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._client.delete(key)

    def _key(self, topic_id: str, partition: int) -> str:
        return f"{self._base}{topic_id}:{partition}"
