"""Retention is exact: the first message that stays, by age and by bytes, with a clock of the test's own."""

from hypothesis import given
from hypothesis import strategies as st

from services.retention.core.limits import Cut, Kept, Limits, first_retained
from services.retention.core.readers import Reader, first_needed
from services.retention.core.sizes import Sizes

S = 1_000_000


def record(offset: int, at_s: int, size: int = 10) -> Kept:
    # Kafka's offsets have gaps where transactions end.
    return Kept(offset, 1 + offset * 2, at_s * S, size)


MARK = Kept(0, 0, 0, 0, is_mark=True)
FIVE = [MARK, *(record(offset, at_s=offset) for offset in range(5))]


def cut(limits: Limits, now_s: int, records: list[Kept] = FIVE) -> Cut | None:
    total = sum(one.size_bytes for one in records)
    return first_retained(records, limits, total_bytes=total, now_us=now_s * S)


def test_k28_by_seconds_the_first_message_that_is_young_enough_stays():
    assert cut(Limits(seconds=10), now_s=12) == Cut(earliest=2, kafka_offset=5, messages=2)
    assert cut(Limits(seconds=10), now_s=10) is None


def test_k28_by_bytes_the_newest_that_fit_stay():
    assert cut(Limits(max_bytes=30), now_s=0) == Cut(earliest=2, kafka_offset=5, messages=2)
    assert cut(Limits(max_bytes=29), now_s=0) == Cut(earliest=3, kafka_offset=7, messages=3)
    assert cut(Limits(max_bytes=50), now_s=0) is None


def test_k28_when_all_are_too_old_the_last_record_stays_in_kafka_and_is_not_shown():
    assert cut(Limits(seconds=1), now_s=100) == Cut(earliest=5, kafka_offset=9, messages=5)


def test_a_mark_behind_everything_is_the_last_record():
    cleared = Kept(5, 11, 0, 0, is_mark=True)
    assert cut(Limits(seconds=1), 100, [*FIVE, cleared]) == Cut(earliest=5, kafka_offset=11, messages=5)
    assert cut(Limits(seconds=1), 100, [cleared]) is None


@given(sizes=st.lists(st.integers(1, 50), max_size=40), most=st.integers(0, 300))
def test_what_stays_by_bytes_fits_and_one_more_would_not(sizes: list[int], most: int):
    records = [record(offset, 0, size) for offset, size in enumerate(sizes)]
    found = cut(Limits(max_bytes=most), 0, records)
    first = 0 if found is None else found.earliest
    assert sum(sizes[first:]) <= most
    assert first == 0 or sum(sizes[first - 1 :]) > most


@given(steps=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 700)), max_size=6))
def test_sizes_counted_as_records_come_and_go_are_those_of_what_is_there(steps: list[tuple[int, int]]):
    sizes, held, next_offset = Sizes(), dict[int, int](), 0
    for added, gone in steps:
        for _ in range(added):
            held[next_offset] = next_offset % 7 + 1
            sizes.add(next_offset, held[next_offset])
            next_offset += 2
        low = min(min(held, default=0) + 2 * gone, max(next_offset - 2, 0))
        held = {offset: size for offset, size in held.items() if offset >= low}
        if not sizes.trimmed(low):
            first = [size for offset, size in held.items() if offset < sizes.first_end]
            sizes.recount(low, sum(first), len(first))
        assert sizes.total_bytes == sum(held.values())


def needed(*readers: Reader, events: int = 100) -> tuple[int, tuple[str, ...]]:
    found = first_needed(readers, next_seq=1000, events=events, grace_us=60 * S, now_us=1000 * S)
    return found.first_seq, tuple(one.name for one in found.dead)


def test_changes_are_kept_for_the_cdc_door_and_for_the_slowest_living_reader():
    assert needed() == (900, ())
    assert needed(Reader("a", 500, 990 * S), Reader("b", 700, 990 * S)) == (499, ())
    assert needed(Reader("a", 990, 990 * S)) == (900, ())
    assert needed(events=5000) == (1, ())


def test_a_dead_reader_holds_them_for_a_bounded_time():
    assert needed(Reader("a", 500, 941 * S)) == (499, ())
    assert needed(Reader("a", 500, 939 * S)) == (900, ("a",))
