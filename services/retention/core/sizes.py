"""How many bytes a partition holds, counted once as its records come and as they are trimmed."""

CHUNK = 256


class Sizes:
    """Bytes by stretches of records: a trim takes whole stretches off, and the rest of one is counted again."""

    def __init__(self) -> None:
        # Kafka offset of the first record of each stretch, its records and its bytes.
        self._chunks: list[list[int]] = []
        self.total_bytes = 0
        self.next_kafka_offset = 0

    def add(self, kafka_offset: int, size_bytes: int) -> None:
        if not self._chunks or self._chunks[-1][1] >= CHUNK:
            self._chunks.append([kafka_offset, 0, 0])
        self._chunks[-1][1] += 1
        self._chunks[-1][2] += size_bytes
        self.total_bytes += size_bytes
        self.next_kafka_offset = kafka_offset + 1

    def trimmed(self, low: int) -> bool:
        """Records below this Kafka offset are gone; False if the stretch around it must be counted anew."""
        while len(self._chunks) > 1 and self._chunks[1][0] <= low:
            self.total_bytes -= self._chunks.pop(0)[2]
        return not self._chunks or self._chunks[0][0] >= low

    def recount(self, low: int, size_bytes: int, records: int) -> None:
        """What the first stretch has from `low` on."""
        first = self._chunks[0]
        self.total_bytes += size_bytes - first[2]
        self._chunks[0] = [low, records, size_bytes]

    @property
    def first_end(self) -> int:
        """The Kafka offset behind the first stretch."""
        return self._chunks[1][0] if len(self._chunks) > 1 else self.next_kafka_offset
