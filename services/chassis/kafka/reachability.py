"""Whether the brokers answer, as one client of them sees it."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import orjson
from confluent_kafka import KafkaError, KafkaException

from services.chassis.kafka.errors import unanswered

STATISTICS_EVERY_MS = 1000
FIRST_SLICE_S = 0.5

Answer = TypeVar("Answer")


class Reachability:
    """Trouble since the last sign of life; librdkafka tells both when its client is polled."""

    def __init__(self) -> None:
        self.trouble: KafkaError | None = None
        self.fatal: KafkaError | None = None
        self._answered = False

    def config(self) -> dict[str, Any]:
        """What a client's configuration needs so that this object hears of it."""
        return {
            "error_cb": self._on_error,
            "stats_cb": self._on_statistics,
            "statistics.interval.ms": STATISTICS_EVERY_MS,
        }

    @property
    def reachable(self) -> bool:
        """Whether the last that was heard is a broker's answer."""
        return self._answered and self.trouble is None

    def answered(self) -> None:
        """A broker has answered."""
        self._answered = True
        self.trouble = None

    def ask(
        self, request: Callable[[float], Answer], *, hear: Callable[[], object], bootstrap: str, timeout_s: float
    ) -> Answer:
        """Make a request in growing slices of the time, so that only silence takes it all.

        A refusal is told at once; `hear` polls the client, which is when its troubles are told.
        """
        deadline, slice_s = time.monotonic() + timeout_s, FIRST_SLICE_S
        while True:
            try:
                answer = request(min(slice_s, max(deadline - time.monotonic(), 0.01)))
            except KafkaException as error:
                hear()
                failure = unanswered(bootstrap, self.trouble, error.args[0])
                if not failure.retry or time.monotonic() >= deadline:
                    raise failure from error
                slice_s *= 2
            else:
                self.answered()
                return answer

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal():
            self.fatal = error
        # "All brokers are down" follows the error that says why; keep the reason.
        if self.trouble is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.trouble = error

    def _on_statistics(self, statistics: str) -> None:
        brokers = orjson.loads(statistics)["brokers"].values()
        if any(broker["nodeid"] >= 0 and broker["state"] == "UP" for broker in brokers):
            self.answered()
