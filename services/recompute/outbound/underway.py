"""Records in files which templates are being evaluated, to know them after a crash of the worker.

After two crashes a template is quarantined. After the first it is evaluated alone, so that a template that only shared
a job with the culprit is not blamed again. A crash from outside, as by a kill, is blamed on a template only if that was
evaluated alone.

Templates that operators were at when the worker crashed are kept from operators for as long, and evaluated as ever.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")

EVALUATED, OPERATORS = ("shared", "slow"), "incremental"
LANES = (*EVALUATED, OPERATORS)
# Exists if the worker ended itself: its JVM, its heap or its loop were gone.
BLAMED = "blamed"


class Strikes(Struct):
    """How often a template was under way at an end, and when last, in seconds since 1970."""

    count: int
    at_s: float


class UnderWay:
    """`folder` outlives the process; `quarantine_s` is how long a template is kept out."""

    def __init__(self, folder: Path, *, quarantine_s: float, clock: Callable[[], float] = time.time) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._quarantine_s, self._clock = folder, quarantine_s, clock
        self._strikes_file = folder / "strikes.json"
        self._strikes = _read(self._strikes_file, dict[str, Strikes]) or {}
        ended_with = {lane: _read(folder / lane, list[str]) or [] for lane in LANES}
        is_blamed = (folder / BLAMED).exists()
        (folder / BLAMED).unlink(missing_ok=True)
        blamed = {lane: noted for lane, noted in ended_with.items() if is_blamed or len(noted) == 1}
        for template in {one for lane in EVALUATED for one in blamed.get(lane, ())}:
            before = self._strikes.get(template, Strikes(0, 0.0)).count
            self._strikes[template] = Strikes(before + 1, clock())
        self._barred_file = folder / "barred.json"
        # The templates that are kept from operators, and since when.
        barred = _read(self._barred_file, dict[str, float]) or {}
        self._barred = {one: since_s for one, since_s in barred.items() if clock() < since_s + quarantine_s}
        self._barred |= dict.fromkeys(blamed.get(OPERATORS, ()), clock())
        self._files = {lane: os.open(folder / lane, os.O_RDWR | os.O_CREAT, 0o600) for lane in LANES}
        for lane in LANES:
            self.clear(lane)
        self._write()

    def begin(self, lane: str, templates: Iterable[bytes]) -> None:
        """Record what is evaluated now; a crash of the machine may lose it, and then nothing is blamed."""
        noted = msgspec.json.encode([template.hex() for template in templates])
        os.pwrite(self._files[lane], noted, 0)
        os.ftruncate(self._files[lane], len(noted))

    def clear(self, lane: str) -> None:
        os.ftruncate(self._files[lane], 0)

    def succeeded(self, templates: Iterable[bytes]) -> None:
        """Clear what is recorded against the templates: they were evaluated without a crash."""
        if not self._strikes:
            return
        if [self._strikes.pop(one.hex(), None) for one in templates if one.hex() in self._strikes]:
            self._write()

    def is_suspect(self, template: bytes) -> bool:
        return template.hex() in self._strikes

    def is_barred(self, template: bytes) -> bool:
        """Whether operators leave it alone, because a worker ended while they were at it."""
        since_s = self._barred.get(template.hex())
        return since_s is not None and self._clock() < since_s + self._quarantine_s

    def quarantined_for_s(self, template: bytes) -> float | None:
        """How long it is still kept out; None if it is not."""
        strikes = self._strikes.get(template.hex())
        if strikes is None or strikes.count < 2:
            return None
        left_s = strikes.at_s + self._quarantine_s - self._clock()
        return left_s if left_s > 0 else None

    def _write(self) -> None:
        for file, held in ((self._strikes_file, self._strikes), (self._barred_file, self._barred)):
            written = file.with_suffix(".new")
            written.write_bytes(msgspec.json.encode(held))
            written.replace(file)


def blame(folder: Path) -> None:
    """Blame what is being evaluated for the end of the process, which comes now."""
    with suppress(OSError):
        (folder / BLAMED).touch()


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None
