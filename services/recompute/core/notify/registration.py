"""A registered query, as its row and its mark in the log describe it."""

from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Struct

from proto.partitions import PARTITIONS
from proto.tidewire.v1.commands_pb2 import TextSettings
from proto.tidewire.v1.queries_pb2 import Query

_HALF = 8


class Registration(Struct, frozen=True):
    """Without a query it is one that ended; its gen counts all the same."""

    query_id: str
    gen: int
    query: str = ""
    mode: str = "delta"
    audience: dict[str, Any] | None = None
    role: str = ""
    login: str = ""
    search_path: tuple[str, ...] = ()
    settings: dict[str, str] = {}

    @property
    def is_registered(self) -> bool:
        return bool(self.query)

    @property
    def live_id(self) -> bytes:
        """Of the live query: its first half tells the partition, and is the same for all gens."""
        return _hash(self.query_id.encode()) + _hash(f"{self.gen} {self.query_id}".encode())

    @property
    def partition(self) -> int:
        return partition_of_name(self.query_id)

    def live_query(self) -> Query:
        """As recompute takes queries."""
        text = TextSettings(
            time_zone=self.settings.get("TimeZone", "UTC"),
            # to_json prints dates so, whatever the session's style.
            date_style="ISO, MDY",
            interval_style=self.settings.get("IntervalStyle", "postgres"),
            bytea_output=self.settings.get("bytea_output", "hex"),
            extra_float_digits=int(self.settings.get("extra_float_digits", "1")),
        )
        return Query(
            query_id=self.live_id,
            template_id=_hash(b"template " + self.live_id) + _hash(self.live_id),
            template_sql=self.query,
            sql=self.query,
            role=self.role,
            login=self.login,
            text_settings=text,
            search_path=self.search_path,
        )


def partition_of_name(query_id: str) -> int:
    return int.from_bytes(_hash(query_id.encode())) % PARTITIONS


def read_registration(description: bytes) -> Registration | None:
    """A mark of the log; None if it cannot be read, as one of another version."""
    try:
        return msgspec.json.decode(description, type=Registration)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _hash(value: bytes) -> bytes:
    return blake2b(value, digest_size=_HALF, person=b"tidewire.pgr").digest()
