"""What a consumer of a topic is told while offsets cannot be served is about topics."""

import structlog

from services.chassis.kafka import Kafka
from services.gateway.outbound.group_offsets import GroupOffsets


def test_without_redis_the_sentence_names_the_topics_and_the_setting():
    trouble = GroupOffsets(None, Kafka(bootstrap="127.0.0.1:1"), log=structlog.get_logger()).trouble
    assert trouble is not None
    assert "topics" in trouble and "CDC" not in trouble and "TIDEWIRE_REDIS_URL" in trouble
