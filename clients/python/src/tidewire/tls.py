"""TLS as sslmode asks for it, with libpq's meaning of each mode."""

import ssl
from pathlib import Path

from tidewire.address import Address, BadAddress


def context(address: Address) -> ssl.SSLContext:
    """How the server's certificate is checked, and which one we show."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = address.sslmode == "verify-full"
    roots = _roots(address)
    if roots is None and not address.sslmode.startswith("verify"):
        # As in libpq: without roots, `require` and below encrypt, and believe any certificate.
        made.verify_mode = ssl.CERT_NONE
    elif roots == "system":
        made.load_default_certs()
    else:
        _load(made.load_verify_locations, "sslrootcert", roots)
    if address.sslcert:
        _load(made.load_cert_chain, "sslcert", address.sslcert, address.sslkey)
    return made


def _roots(address: Address) -> str | None:
    if address.sslrootcert:
        return address.sslrootcert
    usual = Path.home() / ".postgresql" / "root.crt"
    if usual.exists():
        return str(usual)
    if address.sslmode.startswith("verify"):
        raise BadAddress(
            f"sslmode={address.sslmode} needs the certificate of the server's authority: "
            "name its file by sslrootcert, or sslrootcert=system for those that the machine trusts"
        )
    return None


def _load(load: object, name: str, *files: str | None) -> None:
    assert callable(load)
    try:
        load(*files)
    except (OSError, ssl.SSLError) as error:
        raise BadAddress(f"{name} {files[0]!r} cannot be used: {error}") from error
