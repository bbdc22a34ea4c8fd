"""A value that goes through Spark untouched is printed as the subscriber's own connection would print it."""

import secrets
import struct
from collections.abc import Iterator
from random import Random

import psycopg
import pyarrow as pa
import pytest

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import PgType
from services.recompute.core.rendering import ZONE_PROBE, Unrenderable, renderer, zone_agrees
from services.recompute.core.storage import arrow_column, canonical, literal, spark_type
from services.recompute.outbound.postgres.table_copy import batches
from services.recompute.outbound.spark.session import Spark
from tests.fixtures.postgres import PostgresServer

ROWS = 400
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Etc/GMT+5")
TYPES = dict(
    line.split(" ", 1)
    for line in """b bool\ni2 int2\ni4 int4\ni8 int8\nn numeric(12,4)\nn38 numeric(38,10)\nn0 numeric(5,0)\nnn numeric
f4 float4\nf8 float8\nt text\nv varchar(40)\nc char(4)\nd date\nts timestamp\ntz timestamptz\nu uuid\ny bytea
iv interval\nj jsonb\nia int4[]\nta text[]\nr int4range\nza timestamptz[]\ntr tstzrange""".splitlines()
)
MOST_TYPES = tuple(name for name in TYPES if name not in ("za", "tr"))


def a_float(random: Random, form: str) -> str:
    size = struct.calcsize(form)
    (bits,) = struct.unpack(form, random.randbytes(size))
    return repr(random.choice((bits, 2.0 ** random.randrange(-100, 100), random.randrange(10**9) / 1000, 0.0, -0.0)))


def a_moment(random: Random) -> str:
    return f"to_timestamp({random.randrange(4_100_000_000)}) + {random.randrange(10**6)} * interval '1 us'"


def a_row(random: Random) -> list[str]:
    """One row of SQL expressions, one for each type; a tenth of them NULL."""
    text = "".join(random.choices("aZ9 '\\,\"\n\té€😀{}$⟦⟧%_", k=random.randrange(8))).replace("'", "''")
    moment, small = a_moment(random), random.randrange(-99, 99)
    number = f"{random.randrange(-(10**7), 10**7)}.{random.randrange(10**4):04}"
    seconds = random.randrange(-(10**10), 10**11)
    values = [
        *(random.choice(("true", "false")), str(random.choice((-(2**15), 2**15 - 1, small)))),
        *(str(random.choice((-(2**31), 2**31 - 1, small))), str(random.choice((2**63 - 1, 1 - 2**63, small)))),
        *(number, f"{random.randrange(10**27)}.{random.randrange(10**10):010}", str(random.randrange(-99999, 99999))),
        f"{random.randrange(10**9)}.{'0' * random.randrange(9)}1",
        f"({random.randrange(-(10**7), 10**7)} / 1000.0)::float4",
        *(f"'{a_float(random, 'd')}'::float8", f"'{text}'", f"'{text}'", f"'{'ab'[: random.randrange(3)]}'"),
        random.choice(("'infinity'", "'-infinity'", f"date '2000-01-01' + {random.randrange(-2_000_000, 4_000_000)}")),
        random.choice(("'infinity'", f"timestamp '2000-01-01' + {seconds} * interval '1 s 1 us'")),
        *(random.choice(("'infinity'", moment)), "gen_random_uuid()", f"'\\x{random.randbytes(3).hex()}'"),
        f"make_interval(months => {small}, days => {random.randrange(-9, 9)}, secs => {random.randrange(-999, 999)}.5)",
        *(f"jsonb_build_object('a', {number})", f"ARRAY[{small}, NULL]", f"ARRAY['{text}', NULL]"),
        *(f"int4range(0, {abs(small)})", f"ARRAY[{moment}]", f"tstzrange({moment}, NULL)"),
    ]
    return [value if random.random() > 0.1 else "NULL" for value in values]


class Values:
    """The table of random values, asked under any settings."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
        connection.execute(f"CREATE TABLE kept (id int PRIMARY KEY, {columns})")
        random = Random(4)
        rows = ", ".join(f"({number}, {', '.join(a_row(random))})" for number in range(ROWS))
        connection.execute(f"INSERT INTO kept VALUES {rows}".encode())
        found = connection.execute(
            "SELECT attname, atttypid::int, typname, atttypmod, typtype::text FROM pg_attribute "
            "JOIN pg_type t ON t.oid = atttypid WHERE attrelid = 'kept'::regclass AND attnum > 1"
        )
        self.types = {name: PgType(oid, type_, modifier, kind) for name, oid, type_, modifier, kind in found}

    def under(self, **settings: str) -> None:
        for name, value in (PINNED_TEXT_SETTINGS | settings).items():
            self._connection.execute(f"SET \"{name}\" = '{value}'")

    def texts(self, name: str) -> list[bytes | None]:
        cursor = self._connection.execute(f"SELECT {name} FROM kept ORDER BY id")
        assert cursor.pgresult is not None
        return [cursor.pgresult.get_value(row, 0) for row in range(ROWS)]

    def offsets(self) -> list[int]:
        found = self._connection.execute(ZONE_PROBE).fetchone()
        assert found is not None
        return list(found[0])

    def csv(self) -> pa.Table:
        outputs = ", ".join(self.types)
        with self._connection.cursor().copy(
            f"COPY (SELECT {outputs} FROM kept ORDER BY id) TO STDOUT (FORMAT csv)"
        ) as copy:
            data = b"".join(bytes(part) for part in copy)
        return pa.Table.from_batches(batches(data, tuple(self.types.values()))).rename_columns(list(self.types))


@pytest.fixture(scope="module")
def values(postgres_server: PostgresServer) -> Iterator[Values]:
    name = f"kept_{secrets.token_hex(4)}"
    with psycopg.connect(postgres_server.create_database(name), autocommit=True) as connection:
        yield Values(connection)
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def through_spark(values: Values, spark: Spark) -> dict[str, list[str | None]]:
    """The canonical text of every column, after a way through Spark."""
    values.under()
    table = pa.table({name: arrow_column(t, values.texts(name)) for name, t in values.types.items()})
    table = table.append_column("id", pa.array(range(ROWS), pa.int32()))
    frame = spark.small.createDataFrame(table).coalesce(1)
    columns = [f"{canonical(t, name)} AS {name}" for name, t in values.types.items()]
    found: pa.Table = frame.selectExpr("id", *columns).toArrow().sort_by("id")
    return {name: found.column(name).to_pylist() for name in values.types}


def printed(t: PgType, settings: TextSettings, canonicals: list[str | None]) -> list[bytes | None]:
    prints = renderer(t, settings)
    return [None if value is None else prints(value) for value in canonicals]


def settings_of(**chosen: str) -> TextSettings:
    said = PINNED_TEXT_SETTINGS | chosen
    return TextSettings(
        time_zone=said["TimeZone"],
        date_style=said["DateStyle"],
        interval_style=said["IntervalStyle"],
        bytea_output=said["bytea_output"],
        extra_float_digits=int(said["extra_float_digits"]),
    )


@pytest.mark.parametrize("zone", ZONES)
def test_a_value_is_printed_as_its_own_connection_would(
    zone: str, values: Values, through_spark: dict[str, list[str | None]]
):
    values.under(TimeZone=zone, DateStyle="ISO, DMY", extra_float_digits="3")
    assert zone_agrees(zone, values.offsets())
    settings = settings_of(TimeZone=zone, DateStyle="ISO, DMY", extra_float_digits="3")
    names = TYPES if zone == "UTC" else MOST_TYPES
    found = {name: printed(values.types[name], settings, through_spark[name]) for name in names}
    assert found == {name: values.texts(name) for name in names}


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (("d", "ts", "tz", "za", "tr"), {"DateStyle": "German, DMY"}),
        (("f4", "f8"), {"extra_float_digits": "0"}),
        (("iv",), {"IntervalStyle": "iso_8601"}),
        (("y",), {"bytea_output": "escape"}),
        (("za", "tr"), {"TimeZone": "Europe/Berlin"}),
        (("tz",), {"TimeZone": "<+02>-02"}),
    ],
)
def test_a_type_that_other_settings_print_otherwise_is_left_to_postgres(names, chosen, values: Values):
    for name in names:
        with pytest.raises(Unrenderable):
            renderer(values.types[name], settings_of(**chosen))


def test_copy_gives_what_the_log_gives(values: Values):
    values.under()
    table = values.csv()
    copied_ = {name: table.column(name).to_pylist() for name in values.types}
    logged = {name: arrow_column(t, values.texts(name)).to_pylist() for name, t in values.types.items()}
    assert repr(copied_) == repr(logged)


def test_a_literal_is_the_value_in_the_table(values: Values, spark: Spark):
    values.under()
    found = [
        (t, text) for name, t in values.types.items() for text in sorted(set(values.texts(name)[:40]), key=repr)[:12]
    ]
    listed = ", ".join(f"{canonical(t, literal(t, text))}" for t, text in found)
    row = spark.small.sql(f"SELECT array({listed}) AS r").toArrow().column("r").to_pylist()[0]
    prints = [renderer(t, settings_of()) for t, _ in found]
    assert [None if value is None else show(value) for show, value in zip(prints, row, strict=True)] == [
        text for _, text in found
    ]
    assert {spark_type(t) for t, _ in found} >= {"STRING", "BIGINT", "DECIMAL(38,10)", "DOUBLE"}
