"""The chassis's settings for the run's broker, with topics of each test's own; and authorities for certificates."""

import pytest

from services.chassis.kafka import Kafka
from tests.integration.chassis.certificates import Authority


@pytest.fixture
def section(kafka, topic_prefix):
    return Kafka(bootstrap=kafka.bootstrap, topic_prefix=topic_prefix)


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"), "ours")


@pytest.fixture(scope="session")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"), "stranger")
