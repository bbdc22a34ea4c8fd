"""What came of a message that is not whole yet."""


class Rest:
    """The beginning of a message, in the pieces in which it came: joined once, when it is whole."""

    __slots__ = ("_have", "_need", "pieces")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._have = self._need = 0

    def keep(self, piece: bytes, need: int) -> None:
        """`need` bytes make it worth looking at again."""
        self.pieces, self._have, self._need = [piece], len(piece), need

    def joined(self, data: bytes) -> bytes | None:
        """All that came with `data`, or None if it is not enough yet."""
        self.pieces.append(data)
        self._have += len(data)
        if self._have < self._need:
            return None
        joined, self.pieces = b"".join(self.pieces), []
        return joined
