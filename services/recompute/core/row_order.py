"""The rows of an ordered result, in their order, as they come and go."""

from bisect import bisect_left, bisect_right

from proto.rows import ResultRow


class RowOrder:
    """Rows sorted by bytes; rows with equal bytes stand in any order."""

    def __init__(self) -> None:
        self._keys: list[bytes] = []
        self.rows: list[ResultRow] = []

    def change(self, key: bytes, row: ResultRow, weight: int) -> None:
        """Put so many copies of the row in, or take them out; raises KeyError for one that is not there."""
        for _ in range(weight):
            at = bisect_right(self._keys, key)
            self._keys.insert(at, key)
            self.rows.insert(at, row)
        for _ in range(-weight):
            at = bisect_left(self._keys, key)
            while at < len(self._keys) and self._keys[at] == key and self.rows[at] != row:
                at += 1
            if at == len(self._keys) or self._keys[at] != key:
                raise KeyError(key)
            del self._keys[at], self.rows[at]
