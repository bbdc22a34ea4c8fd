"""Whether the brokers answer, as one client of them sees it."""

from typing import Any

import orjson
from confluent_kafka import KafkaError

STATISTICS_EVERY_MS = 1000


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
