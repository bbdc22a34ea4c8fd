"""PostgreSQL's own regression tests, from Debian's source package; no file of theirs is kept in this repository."""

import platform
import re
import subprocess
import tarfile
from pathlib import Path

from services.devstack.postgres import wheel_bin
from tests.clients.doors import Door
from tests.fixtures.installed import installed, run

PACKAGE = "postgresql-15"
APT, STANZA_END = Path("/etc/apt"), "\n\n"
# As pg_regress starts psql.
FLAGS = ("-X", "-a", "-q", "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on")
SESSION = {"PGTZ": "PST8PDT", "PGDATESTYLE": "Postgres, MDY", "PGOPTIONS": "-c intervalstyle=postgres_verbose"}


def regression_files() -> Path:
    """The folder src/test/regress of PostgreSQL: apt fetches and verifies it, with sources and state of its own."""
    return installed("regression", (PACKAGE,), _fetch) / "regress"


def _sources() -> str:
    """Where this machine has its Debian packages from, for their sources; updates may lack those."""
    codename = platform.freedesktop_os_release()["VERSION_CODENAME"]
    files = (path for path in sorted((APT / "sources.list.d").glob("*.sources")))
    stanzas = [stanza for path in files for stanza in path.read_text().split(STANZA_END)]
    lines = "\n".join(path.read_text() for path in (APT / "sources.list",) if path.exists()).splitlines()
    stanzas += [_stanza(line) for line in lines if line.startswith("deb ")]
    named = (stanza for stanza in stanzas if codename in _field(stanza, "Suites").split())
    return STANZA_END.join(
        f"Types: deb-src\nURIs: {_field(stanza, 'URIs')}\nSuites: {codename}\n"
        f"Components: {_field(stanza, 'Components')}"
        + (f"\nSigned-By: {key}" if (key := _field(stanza, "Signed-By")) else "")
        for stanza in named
    )


def _field(stanza: str, name: str) -> str:
    found = re.search(rf"^{name}:\s*(.*)$", stanza, re.MULTILINE)
    return found[1] if found else ""


def _stanza(line: str) -> str:
    """A line of the old form in the new one."""
    form = re.fullmatch(r"deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+(?P<parts>.+)", line)
    assert form is not None, line
    key = re.search(r"signed-by=(\S+)", form["options"] or "")
    signed = f"\nSigned-By: {key[1]}" if key else ""
    return f"Types: deb\nURIs: {form['uri']}\nSuites: {form['suite']}\nComponents: {form['parts']}{signed}"


def _fetch(folder: Path) -> None:
    own_sources = folder / "sources"
    own_sources.mkdir()
    (own_sources / "debian.sources").write_text(_sources() + "\n")
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    own = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": own_sources,
        "Dir::State": folder / "state",
        "Dir::Cache": folder / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = ("apt-get", *(word for name, value in own.items() for word in ("-o", f"{name}={value}")))
    run(*apt, "update", cwd=folder)
    run(*apt, "source", "--download-only", PACKAGE, cwd=folder)
    [archive] = folder.glob("*.orig.tar.*")
    with tarfile.open(archive) as tar:
        for member in tar:
            inside = re.fullmatch(r"[^/]+/src/test/(regress/.+)", member.name)
            if inside and member.isfile():
                member.name = inside[1]
                tar.extract(member, folder, filter="data")
    archive.unlink()


def transcript(door: Door, files: Path, name: str, folder: Path) -> str:
    """What psql prints for one file."""
    (folder / "results").mkdir(exist_ok=True)
    environ = {
        **door.environ,
        **SESSION,
        "PG_ABS_SRCDIR": str(files),
        "PG_ABS_BUILDDIR": str(folder),
        "PG_LIBDIR": str(files),
        "PG_DLSUFFIX": ".so",
    }
    with (files / "sql" / f"{name}.sql").open() as script:
        done = subprocess.run(
            [str(wheel_bin(18) / "psql"), *FLAGS],
            cwd=folder,
            env=environ,
            stdin=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
    return f"{done.stdout.decode(errors='backslashreplace')}exit status {done.returncode}\n"


def schedule(files: Path) -> list[str]:
    """The names of all files, in an order in which each finds what it needs."""
    lines = (files / "parallel_schedule").read_text().splitlines()
    return [name for line in lines if line.startswith("test:") for name in line.removeprefix("test:").split()]
