"""TLS on the gateway's two legs: as the server of its clients, and as a client of PostgreSQL."""

import os
import ssl

from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

from services.gateway.settings import Gateway

# What libpq does when it is not told.
DEFAULT_SSLMODE = "prefer"


class Certificate:
    """The gateway's certificate and key; renewed files are taken up with the next connection."""

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate, self._key = certificate, key
        self._read_at: tuple[int, int] | None = None
        self._context: ssl.SSLContext | None = None
        self._der = b""

    def context(self) -> ssl.SSLContext:
        written_at = os.stat(self._certificate).st_mtime_ns, os.stat(self._key).st_mtime_ns
        if self._context is None or written_at != self._read_at:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_cert_chain(self._certificate, self._key)
            with open(self._certificate) as file:
                self._der = ssl.PEM_cert_to_DER_cert(_first(file.read()))
            self._context, self._read_at = context, written_at
        return self._context

    def is_that_of(self, der: bytes | None) -> bool:
        """Whether the other one is the same certificate: only then does channel binding pass through us."""
        return self._context is not None and der == self._der


class Leg(Struct, frozen=True):
    """How the connection to PostgreSQL is encrypted, by libpq's words."""

    sslmode: str
    sslrootcert: str | None = None

    @property
    def asks(self) -> bool:
        return self.sslmode not in ("disable", "allow")

    @property
    def insists(self) -> bool:
        return self.sslmode in ("require", "verify-ca", "verify-full")

    def context(self) -> ssl.SSLContext:
        """A client's own certificate is never shown: PostgreSQL would take the gateway's for the client's."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.sslmode == "verify-full"
        verifies = self.sslmode.startswith("verify") or (self.sslmode == "require" and self.sslrootcert is not None)
        context.verify_mode = ssl.CERT_REQUIRED if verifies else ssl.CERT_NONE
        if verifies and self.sslrootcert and self.sslrootcert != "system":
            context.load_verify_locations(self.sslrootcert)
        elif verifies:
            context.load_default_certs()
        return context


def certificate_of(settings: Gateway) -> Certificate | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    made = Certificate(settings.tls_certificate, settings.tls_key)
    made.context()
    return made


def leg_of(dsn: str) -> Leg:
    parts = conninfo_to_dict(dsn)
    root = parts.get("sslrootcert")
    return Leg(str(parts.get("sslmode") or DEFAULT_SSLMODE), str(root) if root else None)


def _first(pem: str) -> str:
    """The server's own certificate stands before those of its authorities."""
    end = "-----END CERTIFICATE-----"
    return pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index(end) + len(end)]
