"""Takeovers of `deltas` on a real broker: what stands before our fences, from checkpoints and from the topic."""

import itertools
from collections import Counter

import pytest

from proto.partitions import partition_of
from proto.positions import Lsn
from proto.topics import DELTAS, FLOW
from services.chassis.kafka import Kafka, ensure_topics
from services.recompute.core.result import Position, Result
from services.recompute.outbound import deltas as topic
from services.recompute.outbound.deltas import Deltas
from services.recompute.outbound.emitted_checkpoints import EmittedCheckpoints

HISTORY = 7


@pytest.fixture
def broker(kafka, topic_prefix):
    found = Kafka(bootstrap=kafka.bootstrap, topic_prefix=topic_prefix)
    ensure_topics(found, FLOW)
    return found


@pytest.fixture
def writer(broker, tmp_path):
    """Makes a worker's side of the topic; each has a folder of its own unless it is given one."""
    numbers = itertools.count()

    def make(folder="one"):
        checkpoints = EmittedCheckpoints(tmp_path / folder)
        return Deltas(broker, worker_id=str(next(numbers)), checkpoints=checkpoints, while_waiting=lambda: None)

    return make


def results(count):
    """Results of queries that lie in several partitions, each with a row of its own."""
    made = []
    for number in range(count):
        result = Result(b"query %d" % number, HISTORY, [], [])
        list(result.begin([(b"%d" % number,)], Position(Lsn(100), 1), None))
        made.append(result)
    return made


def all_partitions():
    return range(DELTAS.partitions)


def states(emitted):
    return {query_id: state.rows for one in emitted.values() for query_id, state in one.states.items()}


def tell(deltas, found, lsn):
    for number, result in enumerate(found):
        row = (b"%d at %d" % (number, lsn),)
        deltas.append(result.change({row: 1}, Position(Lsn(lsn), lsn)))
    deltas.flush(10)


def begun(deltas, found):
    for result in found:
        deltas.append(result.whole())
    deltas.flush(10)


def test_a_successor_knows_what_stood_in_every_partition_and_is_alone_afterwards(writer):
    first, found = writer(), results(20)
    assert states(first.take_over(all_partitions(), HISTORY)) == {}
    begun(first, found)
    tell(first, found, 200)

    second = writer("two")
    emitted = second.take_over(all_partitions(), HISTORY)
    assert set(emitted) == set(all_partitions())
    assert states(emitted) == {b"query %d" % n: result.rows for n, result in enumerate(found)}

    # What the first one still writes stands behind the second one's fence: void.
    told = states(emitted)
    tell(first, found, 300)
    assert states(writer("three").take_over(all_partitions(), HISTORY)) == told


def test_a_takeover_goes_on_from_checkpoints(writer, monkeypatch):
    monkeypatch.setattr(topic, "RECORDS_A_CHECKPOINT", 2)
    first, found = writer(), results(20)
    first.take_over(all_partitions(), HISTORY)
    begun(first, found)
    tell(first, found, 200)
    due = first.due_for_checkpoint()
    for partition in due:
        kept = {b"query %d" % n: one.state for n, one in enumerate(found) if partition_of(b"query %d" % n) == partition}
        # Only the checkpoint knows of it: whoever read the topic from its start would not.
        first.checkpoint(partition, {**kept, b"only saved %d" % partition: found[0].state}, [])
    assert first.due_for_checkpoint() == []
    saved = Counter(found[0].rows)
    tell(first, found, 300)

    emitted = writer().take_over(all_partitions(), HISTORY)
    assert states(emitted) == {
        **{b"query %d" % n: result.rows for n, result in enumerate(found)},
        **{b"only saved %d" % partition: saved for partition in due},
    }


def test_a_checkpoint_of_another_topic_is_not_believed(writer, tmp_path):
    first, found = writer(), results(5)
    first.take_over(all_partitions(), HISTORY)
    begun(first, found)
    wrong = Counter({(b"of another topic",): 1})
    elsewhere = EmittedCheckpoints(tmp_path / "elsewhere")
    for number, result in enumerate(found):
        query_id = b"query %d" % number
        state = result.state
        lie = type(state)(state.standing, wrong, state.columns)
        elsewhere.write(partition_of(query_id), offset=1, value=b"another record", states={query_id: lie}, answered=[])
    emitted = writer("elsewhere").take_over(all_partitions(), HISTORY)
    assert states(emitted) == {b"query %d" % n: result.rows for n, result in enumerate(found)}
