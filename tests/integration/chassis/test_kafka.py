"""Readers and writers against a real broker."""

import time
from types import SimpleNamespace

import msgspec
import pytest

from services.chassis.kafka import (
    DeliveryFailed,
    GroupReader,
    Kafka,
    KafkaUnreachable,
    MembershipLost,
    OffsetOutOfRange,
    Partition,
    Reader,
    RecordTooLarge,
    TopicMismatch,
    TopicMissing,
    TopicRefused,
    Writer,
    ensure_topics,
)
from services.devstack.ports import free_port
from tests.fixtures.kafka import start_kafka


def topic(name="letters", partitions=1, **config):
    return SimpleNamespace(name=name, partitions=partitions, config=config)


def write(section, values, name="letters", **options):
    offsets = []
    writer = Writer(section, name, client_id="test", **options)
    for value in values:
        writer.send(value, on_delivered=offsets.append)
    assert writer.flush(30) == 0
    return offsets


def read_values(reader, count, timeout_s=30.0):
    deadline, values = time.monotonic() + timeout_s, []
    while len(values) < count and time.monotonic() < deadline:
        values += [message.value() for message in reader.read(500, 1.0)]
    return values


@pytest.fixture
def reader(section):
    ensure_topics(section, [topic()])
    reader = Reader(section, "letters", client_id="test")
    yield reader
    reader.close()


def test_what_is_written_is_read_in_order_and_each_delivery_tells_its_offset(section, reader):
    values = [b"%d" % number for number in range(1000)]
    offsets = write(section, values)
    reader.seek_to(0)
    assert (read_values(reader, 1000), offsets, reader.position) == (values, list(range(1000)), 1000)
    assert reader.low_and_high() == (0, 1000)


def test_topics_are_created_once_with_their_config_and_a_wrong_partition_count_is_refused(section):
    ensure_topics(section, [topic(partitions=2), topic("words")])
    ensure_topics(section, [topic(partitions=2), topic("words"), topic("late", **{"cleanup.policy": "compact"})])
    with pytest.raises(TopicMismatch, match=r"has 2 partitions where 3 are declared: delete it"):
        ensure_topics(section, [topic(partitions=3)])


def test_a_topic_that_the_cluster_cannot_hold_is_refused_with_the_setting_to_mend(section):
    too_many = msgspec.structs.replace(section, replication_factor=3)
    with pytest.raises(TopicRefused, match=r"INVALID_REPLICATION_FACTOR.*set TIDEWIRE_KAFKA_REPLICATION_FACTOR"):
        ensure_topics(too_many, [topic()])


def test_a_record_is_read_within_milliseconds_however_many_were_asked_for(section, reader):
    writer = Writer(section, "letters", client_id="test", partition=0)
    reader.seek_to(0)
    writer.send(b"warm")
    assert writer.flush(30) == 0
    assert read_values(reader, 1) == [b"warm"]
    delays = []
    for _ in range(20):
        began = time.monotonic()
        writer.send(b"x")
        assert [message.value() for message in reader.read(500, 5.0)] == [b"x"]
        delays.append(time.monotonic() - began)
        writer.poll(0)
    assert sorted(delays)[10] < 0.1


def test_seeking_back_reads_the_same_records_again(section, reader):
    write(section, [b"%d" % number for number in range(100)])
    reader.seek_to(0)
    read_values(reader, 100)
    reader.seek_to(97)
    assert (reader.position, read_values(reader, 3)) == (97, [b"97", b"98", b"99"])


def test_an_offset_that_is_not_there_is_an_error_and_never_a_jump(section, reader):
    write(section, [b"a", b"b"])
    reader.seek_to(7)
    with pytest.raises(OffsetOutOfRange, match="offset 7 is outside of"):
        read_values(reader, 1)
    reader.seek_to(1)
    assert read_values(reader, 1) == [b"b"]


def test_a_missing_topic_is_named_to_readers_and_writers(section):
    reader = Reader(section, "nowhere", client_id="test")
    with pytest.raises(TopicMissing, match="nowhere"):
        reader.low_and_high()
    reader.close()
    writer = Writer(section, "nowhere", client_id="test", extra={"topic.metadata.propagation.max.ms": 1000})
    writer.send(b"x")
    with pytest.raises(DeliveryFailed, match="nowhere"):
        writer.flush(30)


def test_a_record_of_one_megabyte_passes_and_one_beyond_the_limit_is_refused_at_once(section):
    ensure_topics(section, [topic(**{"max.message.bytes": "4194304"})])
    value = bytes(range(256)) * 4096
    assert write(section, [value, b"after"]) == [0, 1]
    reader = Reader(section, "letters", client_id="test")
    reader.seek_to(0)
    assert read_values(reader, 2) == [value, b"after"]
    reader.close()
    with pytest.raises(RecordTooLarge, match="split it"):
        write(section, [b"x" * 11_000_000])


def test_a_full_queue_makes_the_sender_wait_and_keeps_the_order(section, reader):
    waits = []
    values = [b"%d" % number * 50 for number in range(2000)]
    small = {"queue.buffering.max.messages": 10}
    write(section, values, extra=small, while_waiting=lambda: waits.append(1))
    reader.seek_to(0)
    assert read_values(reader, 2000) == values
    assert waits


def test_nothing_listening_is_unreachable_with_the_address():
    nowhere = Kafka(bootstrap=f"127.0.0.1:{free_port()}")
    with pytest.raises(
        KafkaUnreachable, match=rf"Kafka at {nowhere.bootstrap} does not answer \(.*refused.*\): start it"
    ):
        ensure_topics(nowhere, [topic()], timeout_s=1)
    reader = Reader(nowhere, "letters", client_id="test")
    with pytest.raises(KafkaUnreachable, match=r"does not answer \(.*refused"):
        reader.low_and_high(timeout_s=1)
    assert not reader.reachable
    reader.close()


def test_a_group_shares_the_work_and_goes_on_after_the_committed_offset(section):
    ensure_topics(section, [topic(partitions=2)])
    writer = Writer(section, "letters", client_id="test")
    for number in range(10):
        writer.send(b"%d" % number, partition=number % 2)
    assert writer.flush(30) == 0
    assigned, revoked = [], []
    group = {"group": "post", "client_id": "test", "instance_id": "only"}
    member = GroupReader(section, ["letters"], **group, on_assign=assigned.extend, on_revoke=revoked.extend)
    assert sorted(read_values(member, 10)) == [b"%d" % number for number in range(10)]
    member.commit({Partition("letters", 0): 5, Partition("letters", 1): 3})
    member.close()
    both = [Partition("letters", 0), Partition("letters", 1)]
    assert (sorted(assigned), sorted(revoked)) == (both, both)
    successor = GroupReader(section, ["letters"], **group)
    assert read_values(successor, 2) == [b"7", b"9"]
    successor.close()


def test_a_member_whose_name_was_taken_by_another_is_told(section):
    ensure_topics(section, [topic()])
    write(section, [b"a", b"b"])
    group = {"group": "post", "client_id": "test", "instance_id": "only"}
    first = GroupReader(section, ["letters"], **group)
    assert read_values(first, 2) == [b"a", b"b"]
    second = GroupReader(section, ["letters"], **group)
    assert read_values(second, 2) == [b"a", b"b"]
    with pytest.raises(MembershipLost, match="goes on without this member"):
        first.commit({Partition("letters", 0): 2})
    first.close()
    second.close()


def test_a_committed_offset_that_is_gone_is_an_error_for_a_group_too(section):
    ensure_topics(section, [topic()])
    write(section, [b"a"])
    group = {"group": "post", "client_id": "test"}
    member = GroupReader(section, ["letters"], **group)
    assert read_values(member, 1) == [b"a"]
    member.commit({Partition("letters", 0): 99})
    member.close()
    successor = GroupReader(section, ["letters"], **group)
    with pytest.raises(OffsetOutOfRange, match="letters"):
        read_values(successor, 1)
    successor.close()


def turn_until(reachable, turn):
    deadline = time.monotonic() + 60
    while turn() != reachable and time.monotonic() < deadline:
        continue
    return turn() == reachable


@pytest.mark.slow
def test_a_killed_broker_loses_nothing_doubles_nothing_and_is_seen_as_unreachable(tmp_path):
    with start_kafka(tmp_path) as broker:
        section = Kafka(bootstrap=broker.bootstrap)
        ensure_topics(section, [topic()])
        writer, reader = Writer(section, "letters", client_id="test"), Reader(section, "letters", client_id="test")
        reader.seek_to(0)
        sent, received = [], []

        def turn():
            sent.append(b"%d" % len(sent))
            writer.send(sent[-1])
            writer.poll(0.005)
            received.extend(message.value() for message in reader.read(500, 0.0))
            return writer.reachable

        assert turn_until(True, turn)
        for _ in range(3):
            broker.kill()
            assert turn_until(False, turn)
            assert writer.trouble
            broker.restart()
            assert turn_until(True, turn)
        assert writer.flush(60) == 0
        received += read_values(reader, len(sent) - len(received))
        assert received == sent
        reader.close()
