"""Whether a request was meant for this server: its Host and its Origin.

A web page of another site can make a browser send requests here, also to a loopback address: by DNS rebinding under a
name of its own (told by Host), or from its own origin (told by Origin). Neither may reach a door.
"""

import ipaddress
import re
from collections.abc import Mapping

from msgspec import Struct

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
_ORIGIN = re.compile(r"https?://(?P<host>[^/?#@\s]+)", re.IGNORECASE | re.ASCII)
ANY = "*"


class SiteRules(Struct, frozen=True, kw_only=True):
    """The names that this server has beside its addresses, and the origins that may call it from a browser."""

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()


def wrong_host(host: str | None, *, server_address: str | None, rules: SiteRules) -> str | None:
    """Why a Host header is refused; None if it is ours."""
    found = None if host is None else _HOST.fullmatch(host)
    if found is None:
        return "the request has no usable Host header"
    name = found["name"].lower().rstrip(".")
    if name in rules.hosts or name in LOOPBACK_NAMES or _is_address(name, server_address):
        return None
    return "the Host header names another server: add the name to TIDEWIRE_GATEWAY_HTTP_HOSTS if it is this one"


def wrong_origin(headers: Mapping[str, str], rules: SiteRules) -> str | None:
    """Why a browser's request from another origin is refused; None if there is no other origin."""
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is None:
        # An image or script of another page carries no Origin; following a link does no harm.
        cross = headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"
        return "requests from pages of other sites are refused" if cross and ANY not in rules.origins else None
    found = _ORIGIN.fullmatch(origin)
    if found is not None and found["host"].lower() == host.lower():
        return None
    if ANY in rules.origins or origin.lower() in rules.origins:
        return None
    return "this origin is not allowed: add it to TIDEWIRE_GATEWAY_HTTP_CORS_ORIGINS"


def _is_address(name: str, server_address: str | None) -> bool:
    """Whether it is the very address that the client connected to: rebinding needs a name."""
    try:
        return server_address is not None and ipaddress.ip_address(name.strip("[]")) == ipaddress.ip_address(
            server_address.partition("%")[0]
        )
    except ValueError:
        return False
