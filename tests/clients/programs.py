"""Programs in other languages: each runs one scenario by name and prints its answer as JSON."""

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.clients.doors import Door


def program(command: Sequence[str | Path], scenario: str) -> Callable[[Door], Any]:
    """What `Doors.same` runs: connects as libpq's environment variables say, which all these drivers read."""

    def run(door: Door) -> Any:
        done = subprocess.run(
            [*(str(word) for word in command), scenario],
            env=door.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, f"{scenario} by the {door.name} door:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        return json.loads(done.stdout)

    return run
