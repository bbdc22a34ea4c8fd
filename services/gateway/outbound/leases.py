"""Which partition of `deliveries` this gateway reads: leased in Redis, so that gateways do not read each other's."""

import asyncio

import redis
import redis.asyncio
from structlog.typing import FilteringBoundLogger

from proto.topics import DELIVERIES
from services.chassis.redis import Redis, RedisUnreachable, connect

LEASE_MS = 30_000

# One sorted set: "<partition>:<gateway>" by the time at which the lease ends, by Redis's clock. Whoever comes takes the
# partition that the fewest live leases name, and keeps it when it comes again.
_TAKE = """
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
local used, own = {}, nil
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
    local partition, gateway = string.match(member, '^(%d+):(.*)$')
    used[partition] = (used[partition] or 0) + 1
    if gateway == ARGV[1] then own = partition end
end
local chosen = own or (ARGV[4] ~= '' and ARGV[4]) or nil
if not chosen then
    for number = 0, ARGV[2] - 1 do
        local partition = tostring(number)
        if not chosen or (used[partition] or 0) < (used[chosen] or 0) then chosen = partition end
    end
end
redis.call('ZADD', KEYS[1], now_ms + ARGV[3], chosen .. ':' .. ARGV[1])
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[3])
return tonumber(chosen)
"""


class Leases:
    """Nothing depends on it but load: a delivery names its gateway, and others drop it.

    So without Redis the partition is chosen by the gateway's id, and a lease that could not be renewed in time changes
    nothing for its holder.
    """

    def __init__(
        self,
        section: Redis | None,
        *,
        gateway_id: str,
        topic_prefix: str,
        log: FilteringBoundLogger,
        lease_ms: int = LEASE_MS,
    ) -> None:
        self._section, self._gateway_id, self._log, self._lease_ms = section, gateway_id, log, lease_ms
        self._key = f"tidewire:{topic_prefix}{DELIVERIES.name}:leases"
        self._partition: int | None = None
        self._redis: redis.asyncio.Redis | None = None
        self._in_trouble = False

    async def take(self) -> int:
        """The partition for the whole life of this process."""
        by_id = int(self._gateway_id[:8], 16) % DELIVERIES.partitions
        if self._section is None:
            self._log.info("partition_by_id", partition=by_id, reason="no Redis is set: TIDEWIRE_REDIS_URL")
            self._partition = by_id
        else:
            leased = await self.renew()
            self._partition = by_id if leased is None else leased
            self._log.info("partition_taken", partition=self._partition, leased=leased is not None)
        return self._partition

    async def keep(self) -> None:
        """Renew until cancelled."""
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            await self.renew()

    async def renew(self) -> int | None:
        """The partition that is leased now; None if Redis does not answer."""
        if self._section is None:
            return None
        wanted = "" if self._partition is None else str(self._partition)
        try:
            self._redis = self._redis or await connect(self._section)
            answer = self._redis.eval(
                _TAKE, 1, self._key, self._gateway_id, str(DELIVERIES.partitions), str(self._lease_ms), wanted
            )
            leased = int(await answer)  # type: ignore[misc]
        except (RedisUnreachable, redis.RedisError, OSError) as error:
            if not self._in_trouble:
                self._log.warning("lease_not_renewed", reason=str(error), partition=self._partition)
            self._in_trouble = True
            return None
        if self._in_trouble:
            self._log.info("lease_renewed", partition=leased)
        self._in_trouble = False
        return leased

    async def close(self) -> None:
        """Give the lease back, so that the next gateway need not wait for its end."""
        if self._redis is None:
            return
        try:
            await self._redis.zrem(self._key, f"{self._partition}:{self._gateway_id}")
            await self._redis.aclose()
        except (redis.RedisError, OSError):
            pass  # it ends by itself
