"""Reads `result_requests`: gateways that want the whole result of a registered query."""

from proto.tidewire.v1.result_requests_pb2 import ResultRequest
from proto.topics import RESULT_REQUESTS
from services.chassis.kafka import Kafka
from services.chassis.kafka.partitions import PartitionsReader
from services.chassis.seal import Seal

CLIENT_ID = "recompute-requests"


class ResultRequests:
    """What gateways ask for from now on: a request from before was made of another worker, and comes again."""

    def __init__(self, kafka: Kafka, seal: Seal) -> None:
        self._seal = seal
        self._reader = PartitionsReader(kafka, RESULT_REQUESTS.name, client_id=CLIENT_ID)
        self._reader.add({0: self._reader.low_and_high(0)[1]})

    def read(self) -> list[ResultRequest]:
        values = (message.value() or b"" for message in self._reader.read(0))
        return [RESULT_REQUESTS.decode(value) for value in values if self._seal.holds(RESULT_REQUESTS, value)]

    def close(self) -> None:
        self._reader.close()
