"""The window of the log: horizon, thresholds, states, numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.cdc.stats import cdc_stats
from services.gateway.core.cdc.window import (
    HORIZON,
    NEW_HISTORY,
    Cursor,
    State,
    Window,
    backpressure,
    lost_before,
)
from services.gateway.settings import Cdc, with_known_names
from tests.conformance.skeindb import of_cdc, vector

SEQS = st.integers(0, 10_000)


@of_cdc("sk.thresholds.")
def test_s29_thresholds(vector):
    window = Window(retention=vector["retention"], latest=10)
    assert (window.warn_lag, window.throttle_lag) == (vector["warn_lag"], vector["throttle_lag"])


@of_cdc("sk.state.")
def test_s30_states(vector):
    """S31: what remains."""
    window = Window(retention=vector["retention"], latest=vector["lag"] + 7)
    found = backpressure(window, Cursor(acked=7, history=0, paused=vector["paused"]))
    expected = vector["expect"]
    assert (found.state.value, found.remaining, found.lag, found.paused) == (
        expected["state"],
        expected["remaining_until_resnapshot"],
        vector["lag"],
        vector["paused"],
    )


@of_cdc("sk.horizon.")
def test_s28_the_horizon(vector):
    """S21: the start is the larger of both."""
    earliest = vector["earliest_offset"]
    window = Window(retention=10, latest=earliest + 9, first=0)
    start = max(vector["from_offset"], vector["acked_offset"])
    assert start == vector["resume_offset"]
    stop = lost_before(window, Cursor(acked=vector["acked_offset"], history=0), start)
    assert (stop is not None) == vector["resnapshot_required"]
    if stop is not None:
        assert (stop.offset, stop.reason) == (earliest - 1, HORIZON)


def test_a_resnapshot_says_what_the_document_shows():
    """S20; the lag of the example cannot be latest - acked, ours is (decision 29)."""
    shown = vector("sk.poll.resnapshot")["response_result"]
    window = Window(retention=46, latest=245)
    stop = lost_before(window, Cursor(acked=0, history=0), 0)
    assert (window.earliest, window.latest) == (shown["earliest_offset"], shown["latest_offset"])
    assert stop.shown == {name: shown[name] for name in stop.shown}
    found = backpressure(window, Cursor(acked=0, history=0)).shown
    assert found == {**shown["backpressure"], "lag": 245}


def test_s27_the_retention_is_4096_or_what_the_document_s_variable_says():
    assert Cdc().retention_events == 4096
    told = with_known_names({"SKEINDB_CDC_RETENTION_EVENTS": "10"})
    assert told["TIDEWIRE_CDC_RETENTION_EVENTS"] == "10"
    both = with_known_names({"SKEINDB_CDC_RETENTION_EVENTS": "10", "TIDEWIRE_CDC_RETENTION_EVENTS": "20"})
    assert both["TIDEWIRE_CDC_RETENTION_EVENTS"] == "20"


def test_a_cursor_of_an_earlier_history_is_lost_wherever_it_stands():
    window = Window(retention=100, latest=50, history=2, first=40)
    stop = lost_before(window, Cursor(acked=50, history=1), 50)
    assert (stop.offset, stop.reason) == (39, NEW_HISTORY)
    assert lost_before(window, Cursor(acked=39, history=2), 39) is None


@given(SEQS, st.integers(1, 100), SEQS, SEQS, st.booleans())
def test_remaining_is_how_many_more_events_it_may_miss(latest, retention, acked, more, paused):
    """S31: exactly so many events may come before a resnapshot is required (S28)."""
    acked = min(acked, latest)
    window = Window(retention=retention, latest=latest)
    found = backpressure(window, Cursor(acked=acked, history=0, paused=paused))
    later = Window(retention=retention, latest=latest + more)
    lost_later = later.is_lost(acked)
    if found.state is not State.RESNAPSHOT:
        assert lost_later == (more > found.remaining)


def test_s40_every_number_is_there():
    """S41."""
    fields = vector("sk.stats")["fields"]
    window = Window(retention=8, latest=20)
    found = cdc_stats(
        window,
        [
            (False, Cursor(acked=20, history=0)),
            (False, Cursor(acked=16, history=0)),
            (True, Cursor(acked=14, history=0)),
            (True, Cursor(acked=0, history=0, paused=True)),
        ],
    )
    assert set(found) == set(fields)
    assert found == {
        "active_subscriptions": 4,
        "table_subscriptions": 2,
        "query_subscriptions": 2,
        "total_lag": 30,
        "max_lag": 20,
        "resnapshot_subscriptions": 1,
        "paused_subscriptions": 1,
        "pressured_subscriptions": 2,
        "throttle_recommended_subscriptions": 1,
        "earliest_offset": 13,
        "latest_offset": 20,
        "retained_events": 8,
        "retention_limit": 8,
        "dropped_events_total": 12,
        "warn_lag": 4,
        "throttle_lag": 6,
        "min_remaining_until_resnapshot": 0,
    }
    assert cdc_stats(window, [])["min_remaining_until_resnapshot"] == 8


@pytest.mark.parametrize("retention", [0, -1])
def test_a_window_of_nothing_is_refused(retention):
    with pytest.raises(ValueError, match="at least 1"):
        Cdc(retention_events=retention)
