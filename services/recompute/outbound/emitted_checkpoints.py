"""Checkpoints of what readers know, a file for each partition of `deltas`: a takeover reads only what follows."""

import os
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from proto.positions import Lsn
from proto.rows import ResultRow
from proto.streams.deltas import Standing
from services.recompute.core.result import State


class SavedState(Struct, frozen=True):
    history: int
    lsn: int
    moment_us: int
    rows: list[tuple[list[bytes | None], int]] | None
    columns: list[bytes]
    is_error: bool
    state_hash: bytes


class EmittedCheckpoint(Struct, frozen=True):
    """The states behind the record at `offset`, which is the one with this digest: another topic has another."""

    offset: int
    digest: bytes
    states: dict[str, SavedState]
    answered: list[bytes]

    def restored(self) -> dict[bytes, State]:
        return {bytes.fromhex(query_id): _restored(saved) for query_id, saved in self.states.items()}


class EmittedCheckpoints:
    """Written to a new name first, so that a crash leaves the file before it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def write(
        self, partition: int, *, offset: int, value: bytes, states: dict[bytes, State], answered: Iterable[bytes]
    ) -> None:
        saved = {query_id.hex(): _saved(state) for query_id, state in states.items()}
        made = msgspec.msgpack.encode(EmittedCheckpoint(offset, digest(value), saved, list(answered)))
        new = self._path(partition).with_suffix(".new")
        with new.open("wb") as file:
            file.write(made)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path(partition))

    def read(self, partition: int) -> EmittedCheckpoint | None:
        """The checkpoint; None if there is none or it cannot be read, since the topic has everything."""
        try:
            return msgspec.msgpack.decode(self._path(partition).read_bytes(), type=EmittedCheckpoint)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _path(self, partition: int) -> Path:
        return self._folder / f"deltas-{partition}.msgpack"


def digest(value: bytes) -> bytes:
    return blake2b(value, digest_size=16).digest()


def _saved(state: State) -> SavedState:
    standing = state.standing
    return SavedState(
        history=standing.history,
        lsn=standing.lsn,
        moment_us=standing.moment_us,
        rows=None if state.rows is None else [(list(row), count) for row, count in state.rows.items()],
        columns=list(state.columns),
        is_error=state.is_error,
        state_hash=state.state_hash,
    )


def _restored(saved: SavedState) -> State:
    rows: Counter[ResultRow] | None = None
    if saved.rows is not None:
        rows = Counter({tuple(row): count for row, count in saved.rows})
    return State(
        standing=Standing(saved.history, Lsn(saved.lsn), saved.moment_us),
        rows=rows,
        columns=tuple(saved.columns),
        is_error=saved.is_error,
        state_hash=saved.state_hash,
    )
