"""Passwords and keys of one stack, made once and kept beside its data."""

import secrets
from pathlib import Path

import jwt
import msgspec
from msgspec import Struct

from services.devstack.home import replace


class Credentials(Struct, frozen=True, kw_only=True):
    """What only this stack and its user know."""

    postgres_password: str
    redis_password: str
    jwt_secret: str

    def admin_token(self) -> str:
        """A token of role dba for the HTTP doors; the same secret gives the same token."""
        return jwt.encode({"sub": "devstack", "role": "dba"}, self.jwt_secret, algorithm="HS256")


def keep(path: Path) -> Credentials:
    """Read the secrets of a stack, or make them if it has none yet."""
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Credentials)
    fresh = Credentials(
        postgres_password=secrets.token_urlsafe(24),
        redis_password=secrets.token_urlsafe(24),
        jwt_secret=secrets.token_urlsafe(48),
    )
    replace(path, msgspec.json.encode(fresh))
    return fresh
