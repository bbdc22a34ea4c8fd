"""PostgreSQL's own regression tests, from Debian's source package; no file of theirs is kept in this repository."""

import re
import subprocess
import tarfile
from pathlib import Path

from services.devstack.postgres import wheel_bin
from tests.clients.doors import Door
from tests.fixtures.installed import installed, run

SUITE, PACKAGE = "bookworm", "postgresql-15"
SOURCES = (
    f"deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian {SUITE} main\n"
)
# As pg_regress starts psql.
FLAGS = ("-X", "-a", "-q", "-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on")
SESSION = {"PGTZ": "PST8PDT", "PGDATESTYLE": "Postgres, MDY", "PGOPTIONS": "-c intervalstyle=postgres_verbose"}


def regression_files() -> Path:
    """The folder src/test/regress of PostgreSQL: apt fetches and verifies it, with sources and state of its own."""
    return installed("regression", (SOURCES, PACKAGE), _fetch) / "regress"


def _fetch(folder: Path) -> None:
    (folder / "sources.list").write_text(SOURCES)
    for part in ("state/lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True)
    own = {
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
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
