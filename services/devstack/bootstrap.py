"""Bring a checkout to where the stack can run: a virtual environment with the pinned packages, and the jars.

Runs under the machine's own Python before anything is installed, so it uses only the standard library and is called as
a script. What is there already is known by stamps, and then it does nothing.
"""

import fcntl
import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ENVIRONMENT = PROJECT / ".venv"
HOME = PROJECT / ".tidewire"
JARS = HOME / "jars"
CLIENT = Path("clients") / "python"
UV = "uv==0.13.7"
OLDEST_PYTHON = (3, 11)
OLDEST_JAVA = 17


class Missing(Exception):
    """A prerequisite that only the user can bring."""


class Step:
    """One thing to make, and the stamp that says from which inputs it was made."""

    def __init__(self, stamp: Path, *inputs: str) -> None:
        self._stamp = stamp
        content = b"".join((PROJECT / name).read_bytes() for name in inputs)
        self._digest = hashlib.sha256(content + UV.encode() + str(sys.version_info[:2]).encode()).hexdigest()

    def is_done(self) -> bool:
        return self._stamp.exists() and self._stamp.read_text() == self._digest

    def mark_done(self) -> None:
        self._stamp.write_text(self._digest)


def say(line: str) -> None:
    """Tell what happens, at once."""
    print(f"setup: {line}", flush=True)


def check_programs() -> None:
    """Refuse a machine on which a program is absent, naming how to get it."""
    if sys.version_info < OLDEST_PYTHON:
        raise Missing(f"Python {sys.version.split()[0]} is too old: install Python 3.11 or newer, then `make PYTHON=…`")
    wanted = {"java": "openjdk-17-jdk-headless", "mvn": "maven"}
    for program, package in wanted.items():
        if shutil.which(program) is None:
            raise Missing(f"`{program}` is not on the PATH: install it, for instance by `apt install {package}`")


def check_versions() -> None:
    """Refuse what is there but cannot do the work; asked only when there is work to do."""
    said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < OLDEST_JAVA:
        raise Missing("Java is older than 17: install JDK 17, for instance by `apt install openjdk-17-jdk-headless`")
    if importlib.util.find_spec("ensurepip") is None:
        raise Missing("Python cannot make virtual environments: `apt install python3-venv`")


def run(*command: str | Path) -> None:
    """Run a program that shows its own progress."""
    done = subprocess.run([str(word) for word in command], cwd=PROJECT)
    if done.returncode != 0:
        raise subprocess.CalledProcessError(done.returncode, [str(word) for word in command])


def install_packages() -> None:
    """Make the virtual environment hold what requirements.lock names, the project itself, and its client."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / "bin" / "pip").exists():
        say("making the virtual environment .venv")
        run(sys.executable, "-m", "venv", ENVIRONMENT)
    say(f"installing {UV}")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", UV)
    uv = (ENVIRONMENT / "bin" / "uv", "pip", "install", "--python", python)
    say("installing the packages of requirements.lock")
    run(*uv, "--require-hashes", "-r", "requirements.lock")
    run(*uv, "--no-deps", "--editable", ".")
    run(*uv, "--no-deps", "--editable", CLIENT)


def fetch_jars() -> None:
    """Let Maven copy the jars into a new folder, and put it in the place of the old one."""
    say("fetching the jars of Kafka and Spark's connector through Maven")
    draft = HOME / "jars.draft"
    shutil.rmtree(draft, ignore_errors=True)
    command = ["mvn", "--batch-mode", "-Dstyle.color=never", f"-Dtidewire.jars={draft}", "package"]
    lines = []
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as maven:
        assert maven.stdout is not None
        fetched = 0
        for line in maven.stdout:
            lines.append(line)
            fetched += line.startswith("Downloaded")
            if line.startswith("Downloaded") and fetched % 25 == 0:
                say(f"  {fetched} files fetched")
    if maven.returncode != 0:
        print("".join(lines[-15:]), file=sys.stderr)
        raise subprocess.CalledProcessError(maven.returncode, command)
    shutil.rmtree(JARS, ignore_errors=True)
    draft.rename(JARS)


def archive_classes() -> None:
    """Let Spark's JVM map its classes instead of loading them: every later start takes half the time."""
    say("archiving Spark's classes, for quicker starts")
    done = subprocess.run([ENVIRONMENT / "bin" / "python", "-m", "services.recompute.tools.archive"], cwd=PROJECT)
    if done.returncode != 0:
        say("that failed; Spark will start as slowly as it does without")


def main() -> int:
    """Do what is not done yet; 0 when all is there, 2 when the user has to bring something."""
    began = time.monotonic()
    try:
        check_programs()
        HOME.mkdir(exist_ok=True, mode=0o700)
        packages = ("requirements.lock", "pyproject.toml", str(CLIENT / "pyproject.toml"))
        with (HOME / "setup.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            steps = [
                (Step(ENVIRONMENT / ".tidewire", *packages), install_packages),
                (Step(JARS / ".tidewire", "pom.xml"), fetch_jars),
                (Step(ENVIRONMENT / ".tidewire-archive", "requirements.lock"), archive_classes),
            ]
            waiting = [(step, make) for step, make in steps if not step.is_done()]
            if waiting:
                check_versions()
            for step, make in waiting:
                make()
                step.mark_done()
    except Missing as missing:
        print(f"setup: {missing}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as failure:
        print(f"setup: {Path(failure.cmd[0]).name} failed; its words are above. Run the same again.", file=sys.stderr)
        return 1
    if waiting:
        say(f"done in {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
