"""How much of a table is held where."""

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The [replica] section."""

    # A table up to this is kept in the driver's memory alone.
    in_memory_rows: int = 2_000
    # An overlay up to this is never made a base.
    overlay_rows: int = 20_000
    # A table from this on is worth a checkpoint.
    checkpoint_rows: int = 50_000
