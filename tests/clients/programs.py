"""Programs in other languages: each runs one scenario by name and prints its answer as JSON."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from services.devstack.stack import java
from tests.clients.doors import Door
from tests.fixtures.installed import installed, run

HERE = Path(__file__).parent
# Short lives: the quick compiler and the small collector start soonest.
JAVA_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.timezone=UTC", "-Duser.language=en")

Command = Sequence[str | Path]


def node_command() -> Command:
    """node-postgres, as package-lock.json has it."""
    source = HERE / "node"

    def install(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, folder)
        run("npm", "ci", "--no-audit", "--no-fund", cwd=folder)

    home = installed("node", (source / "package.json", source / "package-lock.json"), install)
    return "env", f"NODE_HOME={home}", "node", source / "scenarios.js"


def go_command() -> Command:
    """pgx, as go.sum has it, by the compiler of this machine."""
    source = HERE / "go"

    def build(folder: Path) -> None:
        environ = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
        run("go", "build", "-o", folder / "scenarios", ".", cwd=source, environ=environ)

    return (installed("go", (source / "main.go", source / "go.mod", source / "go.sum"), build) / "scenarios",)


def java_command() -> Command:
    """pgjdbc, which Maven brings, by the compiler of this machine."""
    source = HERE / "jdbc"

    def build(folder: Path) -> None:
        jars, classes = folder / "jars", folder / "classes"
        run("mvn", "-f", source / "pom.xml", "--batch-mode", "--quiet", f"-Dclients.jars={jars}", "package", cwd=folder)
        compiler = ("javac", "-encoding", "UTF-8", "-cp", jars / "*", "-d", classes)
        run(*compiler, source / "Scenarios.java", cwd=folder)

    home = installed("jdbc", (source / "pom.xml", source / "Scenarios.java"), build)
    return java(), *JAVA_FLAGS, "-cp", f"{home / 'jars'}/*:{home / 'classes'}", "Scenarios"


def program(command: Command, scenario: str) -> Callable[[Door], Any]:
    """What `Doors.same` runs: connects as libpq's environment variables say, which all these drivers read."""

    def answer(door: Door) -> Any:
        done = subprocess.run(
            [*(str(word) for word in command), scenario],
            env=door.environ,
            capture_output=True,
            text=True,
            timeout=90,
        )
        assert done.returncode == 0, (
            f"{scenario} by the {door.name} door:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
        return json.loads(done.stdout)

    return answer
