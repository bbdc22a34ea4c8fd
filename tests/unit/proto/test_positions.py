"""LSNs as PostgreSQL writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.positions import Lsn, format_lsn, parse_lsn


@given(st.integers(0, 2**64 - 1).map(Lsn))
def test_an_lsn_survives_being_written_and_read(lsn):
    assert parse_lsn(format_lsn(lsn)) == lsn


def test_an_lsn_is_written_as_postgres_writes_it():
    assert format_lsn(Lsn(0x16_B374D848)) == "16/B374D848"


@pytest.mark.parametrize("text", ["", "16", "16/", "/16", "x/1", "1/2/3", "1-2"])
def test_what_is_not_an_lsn_is_refused(text):
    with pytest.raises(ValueError):
        parse_lsn(text)
