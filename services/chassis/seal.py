"""The seal (a keyed hash) on records between services: readers ignore a record that was written without the key.

A record's last field is `seal`, an HMAC-SHA256 over all bytes before it. It is taken over bytes, not over fields, so
that no two ways of writing the same record matter.
"""

import hmac
from typing import Any

from google.protobuf.message import Message
from msgspec import Struct

from proto.topics import Topic

KEY_BYTES = 32
_MAC_BYTES = 32
_LENGTH_DELIMITED = 2


class Seal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [seal] section: the key that gateway, registry and recompute share."""

    key: str

    def __post_init__(self) -> None:
        if len(self.key.encode()) < KEY_BYTES:
            raise ValueError(
                f"key has fewer than {KEY_BYTES} bytes: set TIDEWIRE_SEAL_KEY, for instance by `openssl rand -hex 32`"
            )

    def __repr__(self) -> str:
        return "Seal(key=***)"

    def sealed(self, topic: Topic[Any], record: Message) -> bytes:
        """The record's bytes with its seal; a seal that it had is replaced."""
        record.ClearField("seal")
        body = record.SerializeToString()
        return body + _head(topic) + self._mac(topic, body)

    def holds(self, topic: Topic[Any], value: bytes) -> bool:
        """Whether these bytes were sealed for this topic with this key."""
        head = _head(topic)
        split = len(value) - len(head) - _MAC_BYTES
        if split < 0 or value[split : split + len(head)] != head:
            return False
        return hmac.compare_digest(value[-_MAC_BYTES:], self._mac(topic, value[:split]))

    def _mac(self, topic: Topic[Any], body: bytes) -> bytes:
        return hmac.digest(self.key.encode(), topic.name.encode() + b"\0" + body, "sha256")


def _head(topic: Topic[Any]) -> bytes:
    """Tag and length of the field `seal`, whose number is below 16."""
    number = topic.record.DESCRIPTOR.fields_by_name["seal"].number
    return bytes((number << 3 | _LENGTH_DELIMITED, _MAC_BYTES))
