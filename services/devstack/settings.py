"""What the user may choose about the embedded stack, from the environment."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from services.devstack.errors import BadSetting

PREFIX = "TIDEWIRE_DEVSTACK_"
PROJECT = Path(__file__).resolve().parents[2]


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field for each TIDEWIRE_DEVSTACK_<FIELD>; a port of None means a free one."""

    home: str = str(PROJECT / ".tidewire")
    jars: str = str(PROJECT / ".tidewire" / "jars")
    # Servers that the user brings; the stack starts none of its own then (`make up DSN=… KAFKA=… REDIS=…`).
    postgres_dsn: str | None = None
    kafka_bootstrap: str | None = None
    redis_url: str | None = None
    postgres_bin: str | None = None
    postgres_port: int | None = None
    kafka_port: int | None = None
    redis_port: int | None = None
    gateway_pg_port: int | None = None
    gateway_http_port: int | None = None
    # Spark takes ten seconds on an idle machine, and a minute on a crowded one.
    ready_within_s: float = 180.0
    # A part that was ready and is not for so long, while those it needs are, is restarted.
    restart_unready_after_s: float = 60.0


def load(environ: Mapping[str, str]) -> Settings:
    """Read the settings, refusing names that do not exist."""
    given = {name.removeprefix(PREFIX).lower(): value for name, value in environ.items() if name.startswith(PREFIX)}
    try:
        return msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        known = ", ".join(PREFIX + field.upper() for field in Settings.__struct_fields__)
        raise BadSetting(f"{PREFIX}*: {error}; the settings are {known}") from error
