"""Writes `result_requests`: asks recompute for the whole result of a registered query."""

from proto.tidewire.v1.result_requests_pb2 import ResultRequest
from proto.topics import RESULT_REQUESTS
from services.chassis.kafka import Kafka, Writer
from services.chassis.seal import Seal


class ResultRequests:
    def __init__(self, kafka: Kafka, seal: Seal, *, gateway_id: str) -> None:
        self._seal, self.gateway_id = seal, gateway_id
        self._writer = Writer(kafka, RESULT_REQUESTS.name, client_id="gateway-results", partition=0)

    def ask(self, query_id: str, gen: int, number: int) -> None:
        request = ResultRequest(query_id=query_id, gen=gen, gateway_id=self.gateway_id, number=number)
        self._writer.send(self._seal.sealed(RESULT_REQUESTS, request))
        self._writer.poll(0)

    def close(self) -> None:
        self._writer.close()
