"""The gateway's own certificate, which both ports show to clients."""

import os
import ssl

from services.gateway.settings import Gateway


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


def certificate_of(settings: Gateway) -> Certificate | None:
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    made = Certificate(settings.tls_certificate, settings.tls_key)
    made.context()
    return made


def _first(pem: str) -> str:
    """The server's own certificate stands before those of its authorities."""
    end = "-----END CERTIFICATE-----"
    return pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index(end) + len(end)]
