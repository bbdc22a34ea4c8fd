"""The types of generated columns, and the values that are put into them: ordinary ones, and those that are not."""

from msgspec import Struct

from tests.oracle.dice import Dice

NULL = "NULL"


class Kind(Struct, frozen=True):
    """A column type: `family` is how expressions see it; `exact`: equal values have equal text; literals as SQL."""

    name: str
    family: str
    common: tuple[str, ...]
    rare: tuple[str, ...] = ()
    exact: bool = True
    orderable: bool = True

    def value(self, dice: Dice, *, nulls: int = 12) -> str:
        if dice.chance(nulls):
            return NULL
        if self.rare and dice.chance(6):
            return dice.one(self.rare)
        return dice.one(self.common)


def quoted(*texts: str) -> tuple[str, ...]:
    return tuple("'" + text.replace("'", "''") + "'" for text in texts)


TEXTS = quoted(
    *("", "a", "A", "b", "B", "ab", "Ab", "aB", "a b", " a", "a ", "z", "Z", "10", "9", "-3", "abc", "ABC", "x-y", "e"),
    *("ä", "Ä", "é", "É", "ß", "zebra", "_", "%", "a%b", "a_b", "it's", "x\\y", "true", "2024-02-29"),
)
ODD_TEXTS = quoted(
    "İ", "ı", "😀 smile", "日本", "e\u0301", "ﬁ", "\t", "line\nbreak", "Ǆ", "Σς", "ω", '"', "ÿ", "NULL", "\\N"
)
DATES = quoted(
    "2024-02-29", "2023-02-28", "1999-12-31", "2000-01-01", "2026-03-29", "2025-10-26", "2024-12-30", "1970-01-01"
)
TIMES = quoted(
    *(
        "2024-02-29 12:34:56.789012",
        "2000-01-01 00:00:00",
        "2026-03-29 01:30:00",
        "2026-03-29 02:30:00",
        "1999-12-31 23:59:59.999999",
    ),
    *("2025-10-26 02:30:00", "2024-07-01 08:00:00.5", "1969-12-31 23:59:59.1", "2024-02-29 12:34:56"),
)
ODD_DATES = quoted("infinity", "-infinity", "0044-03-15 BC", "9999-12-31", "12024-01-01", "0001-01-01")

INT2 = Kind("smallint", "int", ("0", "1", "2", "3", "-1", "7", "5"), ("32767", "-32768"))
INT4 = Kind("integer", "int", ("0", "1", "2", "3", "4", "5", "-1", "10", "-7", "100"), ("2147483647", "-2147483648"))
INT8 = Kind(
    "bigint", "int", ("0", "1", "2", "3", "-2", "5000000000", "10"), ("9223372036854775807", "-9223372036854775808")
)
BOOL = Kind("boolean", "bool", ("true", "false"))
TEXT = Kind("text", "text", TEXTS, ODD_TEXTS)
VARCHAR = Kind("varchar(12)", "text", TEXTS, ODD_TEXTS)
BPCHAR = Kind("char(4)", "bpchar", quoted("", "a", "b", "ab", "A", "abcd", "a b", "ä"))
NUMERIC = Kind(
    "numeric(10,2)",
    "numeric",
    ("0", "1.10", "-1.25", "0.05", "2.50", "3.50", "99.99", "100", "0.005"),
    ("99999999.99", "-99999999.99"),
)
WIDE_NUMERIC = Kind(
    "numeric(20,4)", "numeric", ("0", "1.0005", "-2.5", "1234567.8912", "0.0001"), ("9999999999999999.9999",)
)
FREE_NUMERIC = Kind(
    "numeric",
    "free",
    ("0", "1", "1.0", "1.00", "-2.5", "0.333333333333333333333", "12345678901234567890"),
    ("'NaN'", "1e40", "'Infinity'"),
    exact=False,
)
FLOAT8 = Kind(
    "double precision",
    "float",
    ("0", "0.1", "-2.5", "1.5", "3", "100.25", "0.3333333333333333"),
    ("'NaN'", "'Infinity'", "'-0'"),
    exact=False,
)
FLOAT4 = Kind("real", "single", ("0", "0.1", "1e-7", "16777216", "1e20", "-3.4e38"), ("'NaN'", "'-0'"), exact=False)
DATE = Kind("date", "date", DATES, ODD_DATES)
TIMESTAMP = Kind("timestamp", "timestamp", TIMES, ODD_DATES)
TIMESTAMPTZ = Kind(
    "timestamptz",
    "timestamptz",
    tuple(f"{t[:-1]}+00'" for t in TIMES),
    quoted("infinity", "-infinity", "9999-12-31 23:00:00+00"),
)
UUID = Kind(
    "uuid",
    "uuid",
    quoted(
        "00000000-0000-4000-8000-000000000001",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "ffffffff-ffff-4fff-bfff-ffffffffffff",
    ),
)
ENUM = Kind("mood", "enum", quoted("sad", "ok", "happy", "Zest"))
JSONB = Kind(
    "jsonb",
    "jsonb",
    quoted('{"a": 1, "b": [1, 2]}', "{}", '{"a": "x"}', "[1, 2.50]", "null", '{"a": {"b": null}}'),
    exact=False,
)
JSON = Kind("json", "opaque", quoted('{"a":  1}', "[1,2]", "{}"), exact=False, orderable=False)
INTS = Kind("integer[]", "ints", quoted("{}", "{1,2}", "{3}", "{NULL,1}", "{{1,2},{3,4}}"))
BYTEA = Kind("bytea", "bytes", quoted("\\x", "\\x00ff", "\\x6162", "\\x5c"))
INTERVAL = Kind(
    "interval", "interval", quoted("1 day", "24:00:00", "1 mon -1 day", "00:00:00.5", "-1 year", "0"), exact=False
)
TIME = Kind("time", "time", quoted("00:00:00", "23:59:59.999999", "12:30:00", "24:00:00"))
# Kept beside the row where it is long: the log leaves it out of a change that does not touch it.
BODY = Kind("text", "text", ("repeat('a', 2500)", "repeat('b', 2500)", "repeat('a', 2499) || 'b'", "'short'"))
TEXT_C = Kind('text COLLATE "C"', "text", TEXTS, ODD_TEXTS)

KINDS = (
    *(
        INT2,
        INT4,
        INT4,
        INT4,
        INT8,
        INT8,
        BOOL,
        BOOL,
        TEXT,
        TEXT,
        TEXT,
        VARCHAR,
        VARCHAR,
        BPCHAR,
        NUMERIC,
        NUMERIC,
        NUMERIC,
    ),
    *(
        WIDE_NUMERIC,
        FREE_NUMERIC,
        FLOAT8,
        FLOAT8,
        FLOAT4,
        DATE,
        DATE,
        TIMESTAMP,
        TIMESTAMP,
        TIMESTAMPTZ,
        TIMESTAMPTZ,
        UUID,
        ENUM,
    ),
    *(JSONB, JSON, INTS, BYTEA, INTERVAL, TIME, TEXT_C),
)
