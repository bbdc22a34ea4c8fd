"""The types of PostgreSQL as the CDC door tells them apart; everything else is text."""

from enum import StrEnum


class Family(StrEnum):
    """How a value is shown and compared."""

    BOOL = "bool"
    SIGNED = "i64"
    UNSIGNED = "u64"
    FLOAT = "f64"
    DECIMAL = "dec"
    BYTES = "bytes"
    JSON = "json"
    DATE = "date"
    TIME = "time"
    TIME_ZONED = "time with zone"
    MOMENT = "datetime"
    MOMENT_ZONED = "datetime with zone"
    UUID = "uuid"
    PADDED = "padded str"
    TEXT = "str"
    # Text as PostgreSQL prints it, of a type whose values may be equal and look different.
    OTHER = "other"


# By the oid that each type has in every PostgreSQL.
FAMILIES = {
    16: Family.BOOL,
    17: Family.BYTES,
    18: Family.TEXT,
    19: Family.TEXT,
    20: Family.SIGNED,
    21: Family.SIGNED,
    23: Family.SIGNED,
    25: Family.TEXT,
    26: Family.UNSIGNED,
    28: Family.UNSIGNED,
    29: Family.UNSIGNED,
    114: Family.JSON,
    700: Family.FLOAT,
    701: Family.FLOAT,
    1042: Family.PADDED,
    1043: Family.TEXT,
    1082: Family.DATE,
    1083: Family.TIME,
    1114: Family.MOMENT,
    1184: Family.MOMENT_ZONED,
    1266: Family.TIME_ZONED,
    1700: Family.DECIMAL,
    2950: Family.UUID,
    3802: Family.JSON,
    5069: Family.UNSIGNED,
}


def family_of(type_oid: int) -> Family:
    return FAMILIES.get(type_oid, Family.OTHER)
