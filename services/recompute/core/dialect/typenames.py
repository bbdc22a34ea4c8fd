"""Types by the names that casts give them."""

from msgspec.structs import replace
from sqlglot import exp

from services.recompute.core.catalog import PgType
from services.recompute.core.dialect.typed import (
    BOOL,
    BPCHAR,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    NAME,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    Untranslatable,
)

_TYPES = {
    "BOOLEAN": BOOL,
    "SMALLINT": INT2,
    "INT": INT4,
    "BIGINT": INT8,
    "DECIMAL": NUMERIC,
    "FLOAT": FLOAT4,
    "DOUBLE": FLOAT8,
    "TEXT": TEXT,
    "VARCHAR": VARCHAR,
    "CHAR": BPCHAR,
    "BPCHAR": BPCHAR,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPNTZ": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMPTZ,
    "UUID": UUID,
    "INTERVAL": INTERVAL,
    "NAME": NAME,
}


def named_type(to: exp.DataType) -> PgType:
    """The type that a cast names; Untranslatable if it is none of pg_catalog's that Spark knows."""
    parts = [int(part.this.name) for part in to.expressions if isinstance(part, exp.DataTypeParam)]
    known = _TYPES.get(to.this.name if to.this is not None else "")
    if known is None or to.args.get("nested") or len(parts) != len(to.expressions):
        raise Untranslatable(f"type {to.sql('postgres').lower()}")
    if known is BPCHAR and to.this.name == "CHAR":
        parts = parts or [1]
    if not parts:
        return known
    if known is NUMERIC:
        precision, scale = (*parts, 0)[:2]
        return replace(known, modifier=((precision << 16) | (scale & 0x7FF)) + 4)
    if known in (VARCHAR, BPCHAR):
        return replace(known, modifier=parts[0] + 4)
    if known in (TIMESTAMP, TIMESTAMPTZ):
        return replace(known, modifier=parts[0])
    raise Untranslatable(f"type {to.sql('postgres').lower()}")
