"""Identifies database and log of a checkpoint: oids, positions and histories of others look alike."""

import threading

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient

from proto.topics import CHANGES
from services.chassis.kafka import Kafka
from services.chassis.postgres import Postgres
from services.recompute.outbound.postgres.table_copy import connection_for

TIMEOUT_S = 30.0
_DATABASE = """
SELECT system_identifier::text || '/' || d.oid::text FROM pg_control_system(), pg_database d
WHERE d.datname = current_database()
"""


class Origin:
    """Asked for once, by the first thread that needs it."""

    def __init__(self, postgres: Postgres, kafka: Kafka) -> None:
        self._postgres, self._kafka = postgres, kafka
        self._lock = threading.Lock()
        self._name: str | None = None

    def name(self) -> str:
        with self._lock:
            if self._name is None:
                self._name = f"{self._database()} {self._topic()}"
            return self._name

    def _database(self) -> str:
        with connection_for(self._postgres) as connection:
            row = connection.execute(_DATABASE).fetchone()
            assert row is not None
            return str(row[0])

    def _topic(self) -> str:
        """The id that Kafka gave the topic when it was created."""
        name = self._kafka.broker_name(CHANGES.name)
        admin = AdminClient({**self._kafka.client_config(), "client.id": "recompute-origin"})
        described = admin.describe_topics(TopicCollection([name]), request_timeout=TIMEOUT_S)
        return str(described[name].result(TIMEOUT_S).topic_id)
