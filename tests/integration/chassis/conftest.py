"""A broker for the chassis's tests, and settings for it with a prefix of each test's own."""

import uuid

import pytest

from services.chassis.kafka import Kafka
from tests.integration.chassis.broker import Broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def kafka(broker):
    return Kafka(bootstrap=broker.part.address, topic_prefix=f"{uuid.uuid4().hex[:8]}.")
