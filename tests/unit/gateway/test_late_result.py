"""The sentence for a first result that does not come says what it waits for and how far that is."""

import pytest

from proto.positions import parse_lsn
from services.gateway.core.late_result import late_result
from services.gateway.errors import RefusalCode

AT, BEFORE, AFTER = (parse_lsn(text) for text in ("0/3000", "0/1000", "0/4000"))
PREFIX = "Execution error: no result within 30 s"


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ((None, None, None), ""),
        ((AT, None, None), ": it needs the changes up to 0/3000: subscribe again"),
        (
            (AT, BEFORE, None),
            ": it needs the changes up to 0/3000, the log of changes is at 0/1000, 8,192 bytes behind: subscribe again",
        ),
        (
            (AT, AT, None),
            ": it needs the changes up to 0/3000, which the log of changes has; no worker has sent a result yet"
            ": subscribe again",
        ),
        (
            (AT, AFTER, BEFORE),
            ": it needs the changes up to 0/3000, which the log of changes has; the latest result of a worker is at "
            "0/1000: subscribe again",
        ),
        (
            (AT, AFTER, AFTER),
            ": it needs the changes up to 0/3000, which the log of changes has; its first evaluation takes longer than "
            "that: subscribe again",
        ),
    ],
)
def test_what_a_late_result_waits_for(positions, words):
    barrier, captured, evaluated = positions
    refusal = late_result(30.0, barrier=barrier, captured=captured, evaluated=evaluated)
    assert (refusal.code, refusal.message) == (RefusalCode.TIMED_OUT, PREFIX + words)
