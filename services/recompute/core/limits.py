"""Limits for table replicas: what is kept in memory, in an overlay, in a checkpoint."""

from msgspec import Struct


class ReplicaLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [replica] section."""

    # Tables of up to this many rows are kept in the driver's memory only.
    in_memory_rows: int = 2_000
    # Larger tables are not copied: PostgreSQL runs the queries that read them.
    largest_table_mb: int = 8_192
    # Overlays of up to this many rows are not compacted.
    overlay_rows: int = 20_000
    # Tables of at least this many rows get checkpoints.
    checkpoint_rows: int = 50_000
