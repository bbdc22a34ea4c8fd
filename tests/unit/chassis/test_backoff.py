"""Waiting grows, is capped and jittered, and ends in time."""

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from services.chassis.backoff import Backoff


class Time:
    """A clock that moves only by sleeping."""

    def __init__(self):
        self.now_s = 0.0

    def clock(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


def test_without_luck_delays_double_up_to_the_cap():
    delays = Backoff(first_s=1, cap_s=10).delays(chance=lambda: 1.0)
    assert list(islice(delays, 6)) == [1, 2, 4, 8, 10, 10]


@given(st.lists(st.floats(0, 1), min_size=8, max_size=8))
def test_luck_takes_off_half_at_most(chances):
    backoff = Backoff(first_s=0.1, cap_s=3)
    whole = islice(backoff.delays(chance=lambda: 1.0), 8)
    lucky = islice(backoff.delays(chance=iter(chances).__next__), 8)
    assert all(limit / 2 <= delay <= limit for limit, delay in zip(whole, lucky, strict=True))


def test_delays_do_not_overflow_however_many_there_were():
    assert next(islice(Backoff().delays(chance=lambda: 1.0), 5000, None)) == 10.0


def test_attempts_end_before_the_deadline():
    time = Time()
    attempts = Backoff(first_s=1, cap_s=4).attempts(
        sleep=time.sleep, clock=time.clock, give_up_after_s=10, chance=lambda: 1.0
    )
    assert (list(attempts), time.now_s) == ([0, 1, 2, 3], 7.0)


def test_attempts_end_when_the_sleep_was_woken_by_a_stop():
    answers = iter([False, False, True])
    assert list(Backoff().attempts(sleep=lambda _: next(answers))) == [0, 1, 2]
