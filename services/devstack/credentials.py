"""Passwords and keys of one stack, made once and kept beside its data."""

import secrets
from pathlib import Path

import jwt
import msgspec
from msgspec import Struct

from services.devstack.home import replace

TOKEN_STEP_S = 12 * 60 * 60


class Credentials(Struct, frozen=True, kw_only=True):
    """What only this stack and its user know."""

    postgres_password: str
    redis_password: str
    jwt_secret: str
    # Absent in stacks that were made before records were sealed.
    seal_key: str = ""

    def admin_token(self, now_s: float) -> str:
        """A token of role dba for the HTTP doors, good for 12 to 24 hours; within 12 of them always the same."""
        expires_s = (int(now_s) // TOKEN_STEP_S + 2) * TOKEN_STEP_S
        return jwt.encode({"sub": "devstack", "role": "dba", "exp": expires_s}, self.jwt_secret, algorithm="HS256")


def keep(path: Path) -> Credentials:
    """Read the secrets of a stack, or make them if it has none yet."""
    if path.exists():
        kept = msgspec.json.decode(path.read_bytes(), type=Credentials)
        if not kept.seal_key:
            kept = msgspec.structs.replace(kept, seal_key=secrets.token_hex(32))
            replace(path, msgspec.json.encode(kept))
        return kept
    fresh = Credentials(
        postgres_password=secrets.token_urlsafe(24),
        redis_password=secrets.token_urlsafe(24),
        jwt_secret=secrets.token_urlsafe(48),
        seal_key=secrets.token_hex(32),
    )
    replace(path, msgspec.json.encode(fresh))
    return fresh
