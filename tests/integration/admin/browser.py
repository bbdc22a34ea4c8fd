"""Headless Chromium, driven by playwright-core of npm through a small bridge in node."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fixtures.installed import installed, run
from tests.fixtures.waiting import wait_until

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str:
    """The machine's browser, or Debian's, which is installed if it is missing."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        options = ("-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300")
        environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        run("apt-get", "update", cwd=HERE, environ=environ)
        run("apt-get", "install", *options, "chromium", "fonts-dejavu-core", cwd=HERE, environ=environ)
        found = shutil.which("chromium")
    assert found, f"the tests of the administrators' page need one of {NAMES}: install Chromium"
    return found


def node_home() -> Path:
    """playwright-core and axe-core, as package-lock.json has them."""

    def install(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        run("npm", "ci", "--no-audit", "--no-fund", cwd=folder)

    return installed("browser", (HERE / "package.json", HERE / "package-lock.json"), install)


class Page:
    """One page of the browser; each method is a command of bridge.mjs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def do(self, command: str, /, **rest: Any) -> Any:
        self._process.stdin.write(json.dumps({"do": command, **rest}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, f"{command} {rest}: {answer['error']}\n{self.words()}"
        return answer["ok"]

    def click(self, name: str, role: str = "button") -> None:
        self.do("click", role=role, name=name)

    def fill(self, label: str, text: str) -> None:
        self.do("fill", label=label, text=text)

    def see(self, text: str) -> None:
        self.do("see", text=text)

    def go(self, view: str) -> None:
        self.do("hash", to=f"#/{view}")

    def texts(self, selector: str) -> list[str]:
        return self.do("text", selector=selector)

    def words(self) -> str:
        """All that is shown."""
        self._process.stdin.write(json.dumps({"do": "text", "selector": "body"}) + "\n")
        self._process.stdin.flush()
        return str(json.loads(self._process.stdout.readline()))

    def tile(self, label: str) -> str:
        """The figure of a tile."""
        found = [text.split("\n") for text in self.texts(".tile")]
        return next(lines[0] for lines in found if label in " ".join(lines[1:]))

    def wait_tile(self, label: str, wanted: Any, what: str) -> str:
        return wait_until(lambda: (found := self.tile(label)) and wanted(found) and found, lambda: (what, self.words()))

    def serious(self) -> list[Any]:
        """What axe finds that keeps somebody from using the page."""
        return [one for one in self.do("axe") if one["impact"] in ("serious", "critical")]


@contextmanager
def browser() -> Iterator[Page]:
    environ = {**os.environ, "NODE_HOME": str(node_home()), "CHROMIUM": chromium()}
    process = subprocess.Popen(
        ["node", HERE / "bridge.mjs"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
    )
    try:
        yield Page(process)
    finally:
        process.stdin.close()
        try:
            process.wait(20)
        finally:
            process.kill()
            process.stdout.close()
