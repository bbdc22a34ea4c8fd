"""V55, V56: how often a connection may subscribe."""

import pytest

from services.gateway.core.rate import SubscribeRate
from services.gateway.errors import Refusal, RefusalCode, SubscribeRefused


def test_v55_at_most_so_many_in_any_second():
    rate = SubscribeRate(per_s=2, under_way=10)
    rate.take(10.0)
    rate.take(10.4)
    with pytest.raises(SubscribeRefused) as refusal:
        rate.take(10.5)
    assert refusal.value.refusal == Refusal(RefusalCode.RATE_LIMITED, "Rate limited: retry after 501ms")
    rate.take(11.0)


def test_a_client_whose_checks_do_not_end_is_told_to_come_again():
    rate = SubscribeRate(per_s=1000, under_way=3)
    for _ in range(3):
        rate.take(10.0)
    for now_s in (10.0, 20.0):
        with pytest.raises(SubscribeRefused, match="Rate limited: retry after"):
            rate.take(now_s)
    rate.done()
    rate.take(20.0)
