"""What is committed about a registered query."""

from typing import Any

from msgspec import Struct


class Meta(Struct, frozen=True):
    gen: int
    mode: str
    audience: dict[str, Any] | None
    role: str
