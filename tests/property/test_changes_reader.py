"""Whatever captures do to each other and to the log, a reader gets each committed change once and in order."""

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from proto.tidewire.v1.changes_pb2 import ChangesRecord
from tests.property import story, wal
from tests.property.captures import World
from tests.property.story import Run, Story, read

LENIENT = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def whole(world: World, run: Run) -> list[tuple]:
    """All that the run's history consists of, up to the end of the WAL."""
    began = run.began
    return wal.expected(world.clusters[began.system_identifier, began.timeline], began.lsn, began.first_seq)


def histories(world: World) -> dict[int, list[Run]]:
    """How each history began, by the fences in the log."""
    found: dict[int, list[Run]] = {}
    for run in read(world.log):
        if run.began:
            found.setdefault(run.began.history, []).append(run)
    return found


def is_stretch_of(events: list[tuple], all_events: list[tuple]) -> bool:
    if not events:
        return True
    first = all_events.index(events[0]) if events[0] in all_events else len(all_events)
    return all_events[first : first + len(events)] == events


def check_from_the_start(world: World) -> None:
    before, *runs = read(world.log)
    assert before.events == []
    for run in runs:
        assert run.events == whole(world, run)[: len(run.events)]


def check_from_every_offset(world: World) -> None:
    """A suffix: of the last history what the reader from the start got, of former ones a stretch without a hole."""
    began, last = histories(world), read(world.log)[-1]
    for offset in range(world.low, len(world.log)):
        first, *rest = runs = read(world.log[offset:])
        for run in rest:
            assert run.events == whole(world, run)[: len(run.events)] or run.began.because == "unspecified"
        number = ChangesRecord.FromString(world.log[offset]).history
        assert not first.events or any(is_stretch_of(first.events, whole(world, run)) for run in began[number])
        assert runs[-1].events == last.events[len(last.events) - len(runs[-1].events) :]


STORIES = st.lists(story.CRASHES, min_size=10, max_size=60)
ACCIDENTS = st.lists(st.one_of(story.CRASHES, story.CRASHES, story.CRASHES, story.DAMAGES), min_size=10, max_size=60)

# Two captures judge an empty log; the second one drops the slot of the first, and both begin history 1.
TWO_FIRST_STARTS = [
    ("succeed", "unplug", 1, 0),
    ("succeed", "unplug", 0, 0),
    ("succeed", "unplug", 7, 4),
    ("commit", (("insert", 0),)),
    ("succeed", "unplug", 0, 0),
    ("run", 3, 6, 0),
]


@LENIENT
@given(STORIES)
@example(TWO_FIRST_STARTS)
def test_stalls_deaths_and_zombies_leave_one_history_with_each_change_once(actions):
    """Of captures that judge again before they drop a slot, and reserve an epoch only while they hold the slot."""
    world = Story().tell(actions).world
    check_from_the_start(world)
    world.run_one_to_the_end()
    (_, run) = read(world.log)
    assert run.events == whole(world, run)


@LENIENT
@given(STORIES)
def test_a_reader_may_begin_at_any_record(actions):
    world = Story().tell(actions).world
    world.run_one_to_the_end()
    check_from_every_offset(world)


@LENIENT
@given(ACCIDENTS)
@example(TWO_FIRST_STARTS)
def test_whatever_is_lost_is_lost_between_two_histories(actions):
    world = Story().tell(actions).world
    check_from_the_start(world)
    world.run_one_to_the_end()
    check_from_the_start(world)
    check_from_every_offset(world)
    last = read(world.log)[-1]
    assert last.events == whole(world, last)


@LENIENT
@given(ACCIDENTS)
@example(TWO_FIRST_STARTS)
def test_captures_that_act_on_a_judgement_that_is_no_longer_true_harm_no_reader_from_the_start(actions):
    world = Story(careful=False).tell(actions).world
    world.run_one_to_the_end()
    check_from_the_start(world)
    last = read(world.log)[-1]
    assert last.events == whole(world, last)


@LENIENT
@given(st.lists(st.one_of(story.CRASHES, story.CRASHES, story.TRIM), min_size=10, max_size=60))
def test_trimming_the_log_takes_nothing_from_a_reader_that_begins_behind(actions):
    world = Story().tell(actions).world
    world.run_one_to_the_end()
    check_from_every_offset(world)


def only_first_rows_of(table: int, events: list[tuple]) -> list[tuple]:
    """The events without those rows of the table that are not its first in their transaction."""
    kept, seen = [], set()
    for event in events:
        if "row" in event[3:4] and event[4].oid == table:
            if event[0] in seen:
                continue
            seen.add(event[0])
        kept.append(event)
    return kept


@LENIENT
@given(ACCIDENTS, st.sampled_from(range(16384, 16387)))
def test_of_a_table_that_nobody_reads_the_first_row_of_a_transaction_comes_out_and_all_are_counted(actions, unread):
    world = Story().tell(actions).world
    world.run_one_to_the_end()
    everything, told = read(world.log), read(world.log, lambda oid: oid != unread)
    assert [run.events for run in told] == [only_first_rows_of(unread, run.events) for run in everything]
