"""The scripted gateway of the TypeScript client's own tests, as a process that obeys."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.fixtures.npm_package import NpmPackage


class ScriptedGateway:
    """The server of `react-page.js`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url = self._answer()

    def __call__(self, *command: Any) -> Any:
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        return json.loads(self._process.stdout.readline())


@contextmanager
def scripted_gateway(package: NpmPackage, script: str, query_id: str) -> Iterator[ScriptedGateway]:
    process = subprocess.Popen(
        ["node", "test/programs/react-page.js", script, query_id],
        cwd=package.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield ScriptedGateway(process)
    process.stdin.close()
    process.stdout.close()
    process.wait(30)
