"""DeleteRecords: what stands before an offset goes, at once and for good; asked for less, it changes nothing."""

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from services.chassis.kafka import Kafka
from services.chassis.kafka.errors import ABSENCES, making_client, unanswered

TIMEOUT_S = 15.0


class Deletion:
    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        with making_client(kafka.bootstrap):
            self._admin = AdminClient({**kafka.client_config()})

    def before(self, topic_name: str, partition: int, kafka_offset: int) -> None:
        asked = TopicPartition(self._kafka.broker_name(topic_name), partition, kafka_offset)
        for answer in self._admin.delete_records([asked], request_timeout=TIMEOUT_S).values():
            try:
                answer.result()
            except KafkaException as error:
                # Another one has trimmed further, or the topic was dropped meanwhile.
                if error.args[0].code() not in (KafkaError.OFFSET_OUT_OF_RANGE, *ABSENCES):
                    raise unanswered(self._kafka.bootstrap, None, error.args[0]) from error
