"""Every command line that README and docs name works as written, beside a running stack.

Commands that end soon are run. Of a `make` target that would take long, or would end the stack, each command is asked
for --help, so that a module, an option or a target that is not there is found.
"""

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from services.devstack.settings import PROJECT

pytestmark = pytest.mark.slow

PAGES = (
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md")),
    *sorted((PROJECT / "docs").glob("*.md")),
    PROJECT / "clients" / "python" / "README.md",
)
OURS = r"(?:[A-Z_]+=\S+ )*(?:make|tidewire|python3?|\.venv/bin/\S+|pytest|pip|docker)(?: .*)?"
# Programs that are not part of a checkout; the files they read have tests of their own.
ELSEWHERE = {
    "docker compose up",  # tests/architecture/test_compose.py
    "pip install pre-commit && pre-commit install",
    "pip install ./clients/python",
}
# What the reader fills in.
BLANKS = {
    '"SELECT …"': '"SELECT id FROM parcels"',
    "DSN=…": "DSN={other}",
    "--dsn …": "--dsn {other}",
    "postgresql://postgres@127.0.0.1:5432/app": "{other}",
    "SERVICES_PASSWORD=…": "SERVICES_PASSWORD=secret",
    "postgresql://postgres@host/app": "{other}",
    "services.<service>": "services.gateway",
}
# Of those that would go on for ever, or would act on the stack's own database, the shortest form.
ENDING = {
    "tidewire tail": " --exit-at-end",
    "tidewire watch": " --once",
    "tidewire install": " --dsn {other}",
    "tidewire uninstall": " --dsn {other}",
    "pytest": " --collect-only -q",
}
# Commands that are spoken of without the query or table that they need.
NAMES = (
    "tidewire explain",
    "tidewire watch",
    "tidewire cdc tail TABLE",
    "tidewire notify tail QUERY_ID",
    "tidewire topic tail TOPIC",
    "tidewire topic reset TOPIC GROUP --to 0",
)
# Targets that end by themselves within seconds and leave the stack as it is.
RUN = ("make help", "make up", "make status", "make logs", "make flow", "make uninstall")


def command_lines(page: Path) -> Iterator[str]:
    """The commands in code spans and fenced blocks, without comments, each on one line."""
    text = page.read_text()
    for block in re.findall(r"^```(?:sh|bash)?\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            yield from matched(re.sub(r"\s+#.*", "", line))
    for span in re.findall(r"`([^`\n]+)`", text):
        yield from matched(span)


def matched(text: str) -> Iterator[str]:
    words = " ".join(text.split())
    # A bare name such as `tidewire` or `make` is a noun.
    if re.fullmatch(OURS, words) and " " in words:
        yield words


COMMANDS = sorted({line for page in PAGES for line in command_lines(page)} - ELSEWHERE)


@pytest.fixture(scope="module")
def other_database(postgres_server):
    """A database of another server, for commands that change one."""
    dsn = postgres_server.create_database("commands")
    yield dsn
    postgres_server.drop_database("commands")
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        for role in ("tidewire_capture", "tidewire_recompute", "tidewire_gateway"):
            connection.execute(f"DROP ROLE IF EXISTS {role}")


@pytest.fixture(scope="module")
def shell(devstack, other_database):
    """Runs a command line as a reader would, beside the stack, in the checkout and its virtual environment."""
    with psycopg.connect(devstack.endpoints["postgres"], autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS parcels (id int PRIMARY KEY)")

    def run(line: str) -> subprocess.CompletedProcess:
        return devstack.shell(line.format(other=shlex.quote(other_database)))

    return run


def filled_in(line: str) -> str:
    if line in NAMES:
        return f"{line} --help"
    for blank, value in BLANKS.items():
        line = line.replace(blank, value)
    assert "…" not in line and "<" not in line, f"nothing is known to fill in for {line}"
    for words, more in ENDING.items():
        if re.search(rf"\b{words}\b", line) and more.split()[0] not in line.split():
            line += more
    return line


def test_the_pages_name_commands():
    assert {"make up", 'tidewire explain "SELECT …"', "tidewire doctor", "make demo ONCE=1"} <= set(COMMANDS)


@pytest.fixture(scope="module")
def known_targets():
    """Targets whose commands have answered --help."""
    return set()


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_line_of_the_pages_works_as_written(shell, known_targets, line):
    # A stack runs; test_own_database.py starts one around another database.
    if not line.startswith("make ") or (line.startswith(RUN) and not line.startswith("make up DSN=")):
        done = shell(filled_in(line))
        assert done.returncode == 0, done.stdout + done.stderr
        return
    commands = made_by(shell, line)
    named = [word for command in commands for word in command.split() if word.startswith("tests/")]
    assert [word for word in named if not (PROJECT / word).exists()] == []
    target = " ".join(line.split()[:2])
    if target not in known_targets:
        for command in made_by(shell, target):
            done = shell(f"{command} --help")
            assert done.returncode == 0, f"{command}\n{done.stderr}"
        known_targets.add(target)


def made_by(shell, line: str) -> list[str]:
    """The commands of a target, without those that set the checkout up."""
    shown = shell(line.replace("make ", "make --dry-run ", 1))
    assert shown.returncode == 0, shown.stderr
    commands = [each for each in shown.stdout.splitlines() if "bootstrap.py" not in each]
    assert commands
    return commands


def test_explain_finds_the_running_stack(shell):
    done = shell('tidewire explain "SELECT id FROM parcels WHERE id > 5"')
    assert (done.returncode, "strategy        row-local" in done.stdout) == (0, True), done.stderr
    assert "public.parcels" in done.stdout
