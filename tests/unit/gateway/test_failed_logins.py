"""How long an address waits after failed log-ins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.failed_logins import FailedLogins, LoginLimits, group_of

LIMITS = LoginLimits(
    free_failures=2, first_delay_s=1.0, longest_delay_s=8.0, forget_after_s=100.0, under_way=3, addresses=50
)


def attempt(failed, address, now_s, *, fails):
    failed.began(address)
    failed.ended(address, now_s, failed=fails)


def test_delays_begin_after_the_free_failures_double_and_have_a_limit():
    failed, waits, now_s = FailedLogins(LIMITS), [], 1000.0
    for _ in range(7):
        attempt(failed, "10.0.0.1", now_s, fails=True)
        waits.append(failed.wait_s("10.0.0.1", now_s))
        now_s += waits[-1]
    assert waits == [0, 0, 1, 2, 4, 8, 8]


def test_an_address_waits_for_itself_alone():
    failed = FailedLogins(LIMITS)
    for _ in range(5):
        attempt(failed, "10.0.0.1", 0.0, fails=True)
    assert (failed.wait_s("10.0.0.1", 0.0), failed.wait_s("10.0.0.2", 0.0)) == (4.0, 0.0)


def test_a_success_forgives_nothing_and_time_does():
    failed = FailedLogins(LIMITS)
    for _ in range(3):
        attempt(failed, "10.0.0.1", 1000.0, fails=True)
    attempt(failed, "10.0.0.1", 1002.0, fails=False)
    attempt(failed, "10.0.0.1", 1002.0, fails=True)
    assert failed.wait_s("10.0.0.1", 1002.0) == 2.0
    attempt(failed, "10.0.0.1", 1103.0, fails=True)
    assert failed.wait_s("10.0.0.1", 1103.0) == 0.0


def test_only_so_many_are_under_way():
    failed = FailedLogins(LIMITS)
    for _ in range(3):
        failed.began("10.0.0.1")
    assert failed.wait_s("10.0.0.1", 0.0) > 0
    failed.ended("10.0.0.1", 0.0, failed=False)
    assert failed.wait_s("10.0.0.1", 0.0) == 0


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("unknown", "unknown", True),
    ],
)
def test_addresses_of_one_holder_are_one(one, other, alike):
    assert (group_of(one) == group_of(other)) is alike


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=300))
def test_however_many_addresses_fail_the_memory_is_bounded(attempts):
    failed = FailedLogins(LIMITS)
    for number, fails in attempts:
        attempt(failed, f"10.0.{number}.1", 0.0, fails=fails)
    assert len(failed._records) <= LIMITS.addresses


@given(st.lists(st.booleans(), max_size=60))
def test_guesses_within_a_minute_are_few_whatever_else_succeeds(results):
    """An address that tries as soon as it may, for 60 s, with any successes of its own between its guesses."""
    failed, now_s, guesses = FailedLogins(LIMITS), 1000.0, 0
    for fails in results * 10:
        now_s += failed.wait_s("10.0.0.1", now_s)
        if now_s > 1060.0:
            break
        attempt(failed, "10.0.0.1", now_s, fails=fails)
        guesses += fails
    assert guesses <= 2 + 3 + 60 / 8 + 1
