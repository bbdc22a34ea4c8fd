"""Values of parameters as the log would have them."""

import pytest

from proto.tidewire.v1.commands_pb2 import TextSettings
from services.recompute.core.catalog import PgType
from services.recompute.outbound.postgres.catalog import CatalogReader
from tests.integration.recompute.catalog.conftest import query_of

TOKYO = TextSettings(time_zone="Asia/Tokyo", date_style="SQL, DMY", interval_style="iso_8601", bytea_output="escape")


@pytest.fixture
def normalised(reader: CatalogReader):
    def of(*columns: tuple[int, str], tuples: list, settings: TextSettings = TOKYO) -> list:
        types = [PgType(oid, name) for oid, name in columns]
        return reader.normalised(query_of("", text_settings=settings), types, tuples)

    return of


def test_values_are_read_as_the_subscriber_means_them(normalised):
    columns = (
        (1184, "timestamptz"),
        (1082, "date"),
        (1186, "interval"),
        (17, "bytea"),
        (1700, "numeric"),
        (2950, "uuid"),
    )
    given = (b"02/03/2024 09:00", b"02/03/2024", b"P1D", b"A\\377", b" 1e3", b"{A0EEBC999C0B4EF8BB6D6BB9BD380A11}")
    assert normalised(*columns, tuples=[given, (None,) * 6]) == [
        (
            b"2024-03-02 00:00:00+00",
            b"2024-03-02",
            b"1 day",
            b"\\x41ff",
            b"1000",
            b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        (None,) * 6,
    ]


def test_a_bad_value_spoils_its_own_tuple_alone(normalised):
    tuples = [(str(number).encode(),) for number in range(500)]
    tuples[17] = (b"seventeen",)
    found = normalised((23, "int4"), tuples=tuples)
    assert found[:17] + found[18:] == tuples[:17] + tuples[18:]
    assert (found[17].sqlstate, found[17].message) == ("22P02", 'invalid input syntax for type integer: "seventeen"')


def test_many_tuples_are_read_at_once(normalised):
    tuples = [(str(number).encode(), b"x") for number in range(40_000)]
    assert normalised((23, "int4"), (25, "text"), tuples=tuples) == tuples


def test_no_parameters_are_nothing_to_read(normalised):
    assert normalised(tuples=[()]) == [()]
