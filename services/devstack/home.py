"""The folder that a stack lives in, and how files in it are replaced whole."""

import os
from pathlib import Path

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
        """Create the folders that every part expects."""
        for folder in (self.run, self.root / "data", self.root / "logs"):
            folder.mkdir(parents=True, exist_ok=True)


def replace(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(content)
    draft.replace(path)


def last_lines(path: Path, count: int) -> str:
    """The end of a log, or nothing where there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64 * 1024))
        return b"\n".join(file.read().splitlines()[-count:]).decode(errors="replace")
