"""The topics as they are declared."""

import pytest
from google.protobuf.message import DecodeError

from proto.topics import DELTAS, FLOW, SUBSCRIPTIONS, flow_lines


@pytest.mark.parametrize("topic", FLOW, ids=lambda topic: topic.name)
def test_a_record_of_each_topic_survives_its_encoding(topic):
    record = topic.record()
    for field in record.DESCRIPTOR.fields:
        if field.type == field.TYPE_BYTES and not field.is_repeated:
            setattr(record, field.name, b"\xff\x00")
        elif field.type == field.TYPE_STRING and not field.is_repeated:
            setattr(record, field.name, "näme")
        elif field.type in (field.TYPE_UINT64, field.TYPE_UINT32, field.TYPE_FIXED64) and not field.is_repeated:
            setattr(record, field.name, 7)
    decoded = topic.decode(record.SerializeToString())
    assert (type(decoded), decoded) == (topic.record, record)


@pytest.mark.parametrize("topic", FLOW, ids=lambda topic: topic.name)
def test_bytes_that_are_no_record_are_refused(topic):
    with pytest.raises(DecodeError):
        topic.decode(b"\xff\xff\xff")


def test_what_must_be_in_one_place_is_partitioned_alike():
    assert DELTAS.partitions == SUBSCRIPTIONS.partitions


def test_names_are_unique_and_the_flow_shows_each():
    names = [topic.name for topic in FLOW]
    assert len(set(names)) == len(names)
    assert [line.split("==")[1].strip() for line in flow_lines()] == names
