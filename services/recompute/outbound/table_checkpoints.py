"""Checkpoints of tables: their base as Parquet, in a folder that outlives the process."""

import os
import shutil
import time
from pathlib import Path
from uuid import uuid4

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from proto.positions import Lsn, Seq
from services.recompute.core.catalog import Column, Table

DESCRIPTION = "checkpoint.json"
ROWS = "rows"
# Unfinished checkpoints of crashed processes, and old ones that another process may still read, are kept this long.
STALE_S = 3600.0


class TableCheckpoint(Struct, frozen=True, kw_only=True):
    """The rows of a table behind the commit `lsn`; the log goes on from there at `next_seq`."""

    # The database and the log.
    origin: str
    oid: int
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    history: int
    lsn: Lsn
    next_seq: Seq

    def is_of(self, table: Table) -> bool:
        return (self.oid, self.columns, self.key) == (table.oid, table.columns, table.key)


class TableCheckpoints:
    """One folder for each table, in it one for each checkpoint.

    A checkpoint is written under a temporary name and then renamed, so that it is never seen half written.
    """

    def __init__(self, session: SparkSession, folder: Path) -> None:
        self._session, self._folder = session, folder

    def write(self, checkpoint: TableCheckpoint, frame: DataFrame) -> Path:
        home = self._folder / str(checkpoint.oid)
        home.mkdir(parents=True, exist_ok=True)
        name = f"{checkpoint.lsn:016x}-{uuid4().hex[:8]}"
        unfinished, finished = home / f".{name}", home / name
        frame.write.parquet(str(unfinished / ROWS))
        with (unfinished / DESCRIPTION).open("wb") as file:
            file.write(msgspec.json.encode(checkpoint))
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(finished)
        return finished

    def has_any(self, table: Table) -> bool:
        return bool(self._finished(table.oid))

    def newest(self, table: Table, history: int, origin: str) -> tuple[TableCheckpoint, Path] | None:
        """The last one of the table as it is now, in the history that the log is in."""
        for path in self._finished(table.oid):
            checkpoint = _read(path)
            if checkpoint is None or not checkpoint.is_of(table):
                continue
            if (checkpoint.history, checkpoint.origin) == (history, origin):
                return checkpoint, path
        return None

    def rows(self, path: Path, table: Table) -> DataFrame:
        return self._session.read.parquet(str(path / ROWS)).select(*(f"c{at}" for at in range(len(table.columns))))

    def keep_only(self, oid: int, kept: Path) -> None:
        """Remove what `kept` has made needless; of those that others may read only the old ones."""
        home = self._folder / str(oid)
        for path in home.iterdir() if home.exists() else ():
            is_older = path < kept and not path.name.startswith(".")
            if path != kept and (is_older or _is_stale(path)):
                shutil.rmtree(path, ignore_errors=True)

    def _finished(self, oid: int) -> list[Path]:
        home = self._folder / str(oid)
        if not home.exists():
            return []
        return sorted((path for path in home.iterdir() if not path.name.startswith(".")), reverse=True)


def _read(path: Path) -> TableCheckpoint | None:
    try:
        return msgspec.json.decode((path / DESCRIPTION).read_bytes(), type=TableCheckpoint)
    except (OSError, msgspec.DecodeError):
        return None


def _is_stale(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > STALE_S
    except OSError:
        return False
