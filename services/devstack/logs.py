"""The logs of the parts, side by side."""

import time
from collections.abc import Iterator
from pathlib import Path

from services.devstack.errors import MissingPart
from services.devstack.home import Home

POLL_S = 0.2
LAST_BYTES = 16 * 1024


def chosen(home: Home, part: str | None) -> list[Path]:
    """The log of one part, or of all."""
    folder = home.root / "logs"
    found = sorted(folder.glob("*.log")) if part is None else [home.log(part)]
    missing = [path for path in found if not path.exists()]
    if missing or not found:
        known = ", ".join(sorted(path.stem for path in folder.glob("*.log"))) or "none yet: `make up` starts the stack"
        raise MissingPart(f"no log of {part or 'any part'} in {folder}; there are: {known}")
    return found


def lines(paths: list[Path], *, follow: bool) -> Iterator[str]:
    """The end of each log, then new lines as they come if asked to follow; each with its part's name."""
    places = {path: max(0, path.stat().st_size - LAST_BYTES) for path in paths}
    prefix = max(len(path.stem) for path in paths)
    while True:
        for path, place in places.items():
            with path.open("rb") as file:
                file.seek(place)
                whole = file.read().rpartition(b"\n")[0]
            for line in whole.splitlines():
                yield f"{path.stem:<{prefix}} | {line.decode(errors='replace')}"
            places[path] = place + len(whole) + (1 if whole else 0)
        if not follow:
            return
        time.sleep(POLL_S)
