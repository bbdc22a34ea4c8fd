from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.kafka import KafkaBroker
from tests.integration.routes.stack import RoutesStack


@pytest.fixture
def stack(database: str, kafka: KafkaBroker, topic_prefix: str, tmp_path: Path) -> Iterator[RoutesStack]:
    """Capture on a fresh database; the test starts the workers of the routes."""
    made = RoutesStack(database, kafka.bootstrap, topic_prefix, tmp_path)
    made.db.execute("create schema app; create table app.orders (id int primary key, total int, note text)")
    yield made
    made.end()
