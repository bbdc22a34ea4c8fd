"""The folder that a stack lives in, and how files in it are replaced whole."""

import os
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct


class Home(Struct, frozen=True):
    """Paths below one `.tidewire` folder."""

    root: Path

    @property
    def endpoints(self) -> Path:
        return self.root / "endpoints.json"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def state(self) -> Path:
        return self.run / "state.json"

    @property
    def lock(self) -> Path:
        return self.run / "lock"

    def data(self, part: str) -> Path:
        return self.root / "data" / part

    def log(self, part: str) -> Path:
        return self.root / "logs" / f"{part}.log"

    def make(self) -> None:
        """Create the folders that every part expects, for their owner alone."""
        for folder in (self.root, self.run, self.root / "data", self.root / "logs"):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)


def replace(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
    draft.replace(path)


def open_log(path: Path, *, anew: bool = False) -> BinaryIO:
    """A log for its owner alone, since logs may hold what the data hold; to go on with, or from its beginning."""
    fresh = os.O_TRUNC if anew else 0
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | fresh, 0o600)
    os.fchmod(file, 0o600)
    return os.fdopen(file, "ab")


def last_lines(path: Path, count: int) -> str:
    """The end of a log, or nothing where there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64 * 1024))
        return b"\n".join(file.read().splitlines()[-count:]).decode(errors="replace")
