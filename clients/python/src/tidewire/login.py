"""Logging in: from the start-up message to the first ReadyForQuery, as a generator over frames."""

import hashlib
from collections.abc import Generator
from dataclasses import dataclass
from ssl import SSLObject

from scramp import ScramClient, ScramException

from tidewire import ordinary
from tidewire.address import Address
from tidewire.errors import LogInRefused, ServerError
from tidewire.frames import INT32, Body, Frame

PLAIN, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
UNKNOWN = {
    2: "Kerberos V5",
    6: "an SCM credential",
    7: "GSSAPI",
    9: "SSPI",
}


@dataclass(frozen=True, slots=True)
class LoggedIn:
    """The settings that the server has reported."""

    settings: dict[str, str]


def log_in(address: Address, channel: SSLObject | None) -> Generator[bytes, Frame, LoggedIn]:
    """Yields what to send (perhaps nothing) and is sent one frame each time; `channel` is the TLS below, if any."""
    settings: dict[str, str] = {}
    reply = ordinary.start_up(address.start_up)
    proof = _prove(address, channel)
    next(proof)
    while True:
        found = yield reply
        reply = b""
        match found.type:
            case ordinary.AUTHENTICATION:
                reply = proof.send(Body(found.body))
            case ordinary.ERROR_RESPONSE:
                raise refusal(ServerError(ordinary.error_fields(found.body)))
            case ordinary.PARAMETER_STATUS:
                name, text = ordinary.parameter_status(found.body)
                settings[name] = text
            case ordinary.READY:
                return LoggedIn(settings)


def refusal(error: ServerError) -> LogInRefused:
    refused = LogInRefused(f"the server refuses the connection: {error}")
    refused.retry = error.retry
    refused.__cause__ = error
    return refused


def _prove(address: Address, channel: SSLObject | None) -> Generator[bytes, Body, None]:
    """Answers Authentication messages."""
    secret = address.password
    scram: ScramClient | None = None
    bound = proven = False
    body = yield b""
    while True:
        match kind := body.int32():
            case 0:
                if address.channel_binding == "require" and not bound:
                    raise LogInRefused(f"channel_binding=require, but {_offers('no such log-in')}")
                if scram is not None and not proven:
                    raise LogInRefused("the server lets us in without proving that it knows the password: is it ours?")
                body = yield b""
            case 3:
                body = yield ordinary.password(_secret(secret, "a password") + b"\0")
            case 5:
                body = yield ordinary.password(_md5(address.user, _secret(secret, "a password"), body.take(4)))
            case 10:
                scram, bound = _scram(address, _mechanisms(body), channel)
                first = scram.get_client_first().encode()
                name = scram.mechanism_name.encode() + b"\0"
                body = yield ordinary.password(name + INT32.pack(len(first)) + first)
            case 11 | 12 if scram is not None:
                words, proven = body.take(body.left).decode(errors="replace"), kind == 12
                body = yield _go_on(scram, kind, words)
            case _:
                name = UNKNOWN.get(kind, f"method {kind}")
                raise LogInRefused(f"the server asks for {name}: let pg_hba.conf say scram-sha-256 for this user")


def _go_on(scram: ScramClient, kind: int, words: str) -> bytes:
    try:
        if kind == 11:
            scram.set_server_first(words)
            return ordinary.password(scram.get_client_final().encode())
        scram.set_server_final(words)
    except ScramException as error:
        raise LogInRefused(
            f"the server does not prove that it knows the password ({error}): is it the right one?"
        ) from error
    return b""


def _scram(address: Address, offered: list[str], channel: SSLObject | None) -> tuple[ScramClient, bool]:
    secret = _secret(address.password, "a password").decode()
    binds = PLUS in offered and channel is not None and address.channel_binding != "disable"
    if address.channel_binding == "require" and not binds:
        raise LogInRefused(f"channel_binding=require, but {_offers(', '.join(offered))}")
    if not binds and PLAIN not in offered:
        raise LogInRefused(f"the server offers {', '.join(offered)}, and we speak {PLAIN}")
    try:
        binding = ("tls-server-end-point", channel) if binds else None
        return ScramClient([PLUS if binds else PLAIN], address.user, secret, channel_binding=binding), binds
    except ScramException as error:
        raise LogInRefused(f"SCRAM cannot take this user name or password: {error}") from error


def _offers(offered: str) -> str:
    return (
        f"the server offers {offered}: a gateway that ends TLS itself cannot pass it on, so use "
        "channel_binding=prefer, with sslmode=verify-full to know the server"
    )


def _mechanisms(body: Body) -> list[str]:
    names = []
    while name := body.string():
        names.append(name)
    return names


def _md5(user: str, secret: bytes, salt: bytes) -> bytes:
    inner = hashlib.md5(secret + user.encode()).hexdigest().encode()
    return b"md5" + hashlib.md5(inner + salt).hexdigest().encode() + b"\0"


def _secret(secret: str | None, what: str) -> bytes:
    if secret is None:
        raise LogInRefused(f"the server asks for {what}: put it into the address or into PGPASSWORD")
    return secret.encode()
