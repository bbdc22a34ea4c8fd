"""Where the gateway is and who we are: connection strings as libpq has them."""

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit

from tidewire.errors import TidewireError

SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
BINDINGS = ("disable", "prefer", "require")
# Names of connection strings, and the environment's names for their defaults.
ENVIRONMENT = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "channel_binding": "PGCHANNELBINDING",
    "options": "PGOPTIONS",
    "application_name": "PGAPPNAME",
    "connect_timeout": "PGCONNECT_TIMEOUT",
}
# What libpq knows too, and what makes no difference to a client of a gateway.
IGNORED = {
    *("client_encoding", "fallback_application_name", "gssencmode", "krbsrvname", "sslcompression", "sslsni"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout"),
    *("target_session_attrs", "load_balance_hosts", "min_protocol_version", "max_protocol_version"),
}
_PAIR = re.compile(r"\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s'\\]|\\.)*)\s*")


class BadAddress(TidewireError, ValueError):
    """A connection string that cannot be understood, or names what we do not know."""


# What this client tells every gateway: the messages that it knows, and that it wants the key columns of a result.
OPTIONS = {"tidewire.messages": "F2,F3,F4,F7", "tidewire.key": "on"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host that begins with a slash is the folder of a Unix socket; several are tried in their order."""

    hosts: tuple[tuple[str, int], ...]
    user: str
    database: str
    password: str | None = field(default=None, repr=False)
    sslmode: str = "prefer"
    sslrootcert: str | None = None
    sslcert: str | None = None
    sslkey: str | None = None
    channel_binding: str = "prefer"
    connect_timeout_s: float = 10.0
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def start_up(self) -> dict[str, str]:
        """The parameters of the start-up message."""
        own = {**self.settings, **OPTIONS, "client_encoding": "UTF8"}
        return {"user": self.user, "database": self.database, **own}


def parse(dsn: str, environ: Mapping[str, str], settings: Mapping[str, str] | None = None) -> Address:
    """Read `postgresql://…` or `host=… port=…`; `settings` go into the start-up message (TimeZone, search_path, …)."""
    given = _of_uri(dsn) if re.match(r"postgres(ql)?://", dsn) else _of_pairs(dsn)
    unknown = given.keys() - ENVIRONMENT.keys() - IGNORED
    if unknown:
        raise BadAddress(
            f"{', '.join(sorted(unknown))}: not understood by this client; it knows {', '.join(ENVIRONMENT)}"
        )
    defaults = {name: environ[variable] for name, variable in ENVIRONMENT.items() if environ.get(variable)}
    found = {**defaults, **{name: text for name, text in given.items() if text}}
    user = found.get("user") or getpass.getuser()
    named: dict[str, str] = {name: found[name] for name in ("options", "application_name") if name in found}
    return Address(
        hosts=_hosts(found.get("host", "127.0.0.1"), found.get("port", "5432")),
        user=user,
        database=found.get("dbname", user),
        password=found.get("password"),
        sslmode=_one_of("sslmode", found.get("sslmode", "prefer"), SSL_MODES),
        sslrootcert=found.get("sslrootcert"),
        sslcert=found.get("sslcert"),
        sslkey=found.get("sslkey"),
        channel_binding=_one_of("channel_binding", found.get("channel_binding", "prefer"), BINDINGS),
        connect_timeout_s=_seconds(found.get("connect_timeout", "10")),
        settings={"application_name": "tidewire", **named, **(settings or {})},
    )


def _of_uri(dsn: str) -> dict[str, str]:
    # urlsplit refuses several hosts with ports, so the authority is taken apart here.
    parts = urlsplit(dsn)
    who, _, where = parts.netloc.rpartition("@")
    user, _, secret = who.partition(":")
    hosts, ports = [], []
    for place in where.split(","):
        found = re.fullmatch(r"(\[[^]]*\]|[^:\[\]]*)(?::(\d*))?", place)
        if found is None:
            raise BadAddress(f"{place!r} is no host: write postgresql://user:password@host:port/database")
        hosts.append(unquote(found[1].strip("[]")))
        ports.append(found[2] or "")
    given = {
        "user": unquote(user),
        "password": unquote(secret),
        "host": ",".join(hosts),
        "port": ",".join(ports) if any(ports) else "",
        "dbname": unquote(parts.path.removeprefix("/")),
    }
    return {**given, **dict(parse_qsl(parts.query, keep_blank_values=True))}


def _of_pairs(dsn: str) -> dict[str, str]:
    given, at = {}, 0
    while at < len(dsn.rstrip()):
        found = _PAIR.match(dsn, at)
        if found is None:
            raise BadAddress("the address is no connection string: write postgresql://user:password@host:port/database")
        text = found[2][1:-1] if found[2].startswith("'") else found[2]
        given[found[1]] = re.sub(r"\\(.)", r"\1", text)
        at = found.end()
    return given


def _hosts(hosts: str, ports: str) -> tuple[tuple[str, int], ...]:
    names, numbers = hosts.split(","), [number or "5432" for number in ports.split(",")]
    if len(numbers) == 1:
        numbers *= len(names)
    if len(numbers) != len(names) or not all(number.isdecimal() and 0 < int(number) < 65536 for number in numbers):
        raise BadAddress(f"port {ports!r} does not fit host {hosts!r}: one port, or as many as hosts, from 1 to 65535")
    return tuple((name or "127.0.0.1", int(number)) for name, number in zip(names, numbers, strict=True))


def _one_of(name: str, text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        raise BadAddress(f"{name} {text!r} is none of {', '.join(known)}")
    return text


def _seconds(text: str) -> float:
    if not re.fullmatch(r"\d+(\.\d+)?", text):
        raise BadAddress(f"connect_timeout {text!r} is not a number of seconds")
    return float(text) or 10.0
