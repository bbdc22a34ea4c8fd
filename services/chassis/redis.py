"""Redis: the [redis] section and connections that have answered once."""

import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from msgspec import Struct

from services.chassis.settings import refuse_absent_files

TIMEOUT_S = 5.0


class Redis(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [redis] section: redis:// or, by TLS, rediss://."""

    url: str
    ssl_ca_location: str | None = None
    ssl_certificate_location: str | None = None
    ssl_key_location: str | None = None

    def __post_init__(self) -> None:
        refuse_absent_files(
            "redis",
            ssl_ca_location=self.ssl_ca_location,
            ssl_certificate_location=self.ssl_certificate_location,
            ssl_key_location=self.ssl_key_location,
        )
        scheme = urlsplit(self.url).scheme
        if scheme not in ("redis", "rediss", "unix"):
            raise ValueError("url must begin with redis://, rediss:// or unix://: mend TIDEWIRE_REDIS_URL")
        if self._files() and scheme != "rediss":
            raise ValueError("certificates are of use only by TLS: let TIDEWIRE_REDIS_URL begin with rediss://")

    def __repr__(self) -> str:
        return f"Redis(address={self.address!r})"

    @property
    def address(self) -> str:
        """The URL without its user, password and options, for messages."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def options(self) -> dict[str, Any]:
        """What redis-py's from_url needs beside the URL."""
        options: dict[str, Any] = {
            "socket_connect_timeout": TIMEOUT_S,
            "socket_timeout": TIMEOUT_S,
            "socket_keepalive": True,
            "health_check_interval": 15,
        }
        if urlsplit(self.url).scheme == "rediss":
            options |= {"ssl_cert_reqs": "required", "ssl_check_hostname": True, **self._files()}
        return options

    def _files(self) -> dict[str, str]:
        files = {
            "ssl_ca_certs": self.ssl_ca_location,
            "ssl_certfile": self.ssl_certificate_location,
            "ssl_keyfile": self.ssl_key_location,
        }
        return {option: path for option, path in files.items() if path is not None}


class RedisUnreachable(Exception):
    """Redis does not answer."""

    retry = True

    def __init__(self, address: str, detail: str) -> None:
        super().__init__(f"Redis at {address} does not answer ({detail}): start it, or set TIDEWIRE_REDIS_URL")
        self.address, self.detail = address, detail


class RedisRefused(Exception):
    """Redis answers and refuses us, or we refuse its certificate."""

    retry = False

    def __init__(self, address: str, detail: str) -> None:
        super().__init__(
            f"Redis at {address} and these settings do not agree ({detail}): "
            "check TIDEWIRE_REDIS_URL and TIDEWIRE_REDIS_SSL_*"
        )
        self.address, self.detail = address, detail


async def connect(section: Redis) -> redis.asyncio.Redis:
    """A client whose server has answered; the caller closes it."""
    client: redis.asyncio.Redis = redis.asyncio.Redis.from_url(section.url, **section.options())
    try:
        await client.ping()
    except (redis.RedisError, OSError) as error:
        await client.aclose()
        raise _failure(section, error) from error
    return client


def connect_sync(section: Redis) -> redis.Redis:
    """A blocking client whose server has answered; the caller closes it."""
    client = redis.Redis.from_url(section.url, **section.options())
    try:
        client.ping()
    except (redis.RedisError, OSError) as error:
        client.close()
        raise _failure(section, error) from error
    return client


def _failure(section: Redis, error: BaseException) -> RedisUnreachable | RedisRefused:
    causes = list(_chain(error))
    refusals = (
        redis.AuthenticationError,
        redis.exceptions.AuthorizationError,
        redis.ResponseError,
        ssl.SSLError,
    )
    outages = (redis.BusyLoadingError, ssl.SSLEOFError)
    if not any(isinstance(cause, outages) for cause in causes) and any(isinstance(cause, refusals) for cause in causes):
        return RedisRefused(section.address, str(error))
    return RedisUnreachable(section.address, str(error))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
