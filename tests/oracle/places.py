"""Where cases run: servers of two versions, databases whose texts are ordered by bytes or by a language."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.fixtures.postgres import PostgresServer, bin_of, start_postgres
from tests.oracle.case import Place

LANGUAGE = "en_US.UTF-8"
# The wheel's PostgreSQL 18 was built without ICU; Debian's 15 has it.
PLACES = (Place(18, "C"), Place(18, "libc"), Place(18, "builtin"), Place(15, "C"), Place(15, "libc"), Place(15, "icu"))
_DATABASE = {
    "C": "LOCALE 'C'",
    "libc": f"LOCALE '{LANGUAGE}'",
    "builtin": "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'",
    "icu": "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'",
}


class PlaceMissing(Exception):
    """A program that the oracle needs is not on this machine."""


@contextmanager
def server_at(place: Place, directory: Path) -> Iterator[PostgresServer]:
    """A server that can hold databases of that place."""
    _need_version(place.version)
    with _language(directory), start_postgres(directory / f"postgres-{place.version}", place.version) as server:
        yield server


def create(server: PostgresServer, place: Place, name: str) -> str:
    """A database of that place; returns its DSN as superuser."""
    with psycopg.connect(server.dsn_of("postgres"), autocommit=True) as connection:
        choices = f"TEMPLATE template0 ENCODING 'UTF8' {_DATABASE[place.locale]}"
        connection.execute(f'CREATE DATABASE "{name}" {choices}'.encode())
    return server.dsn_of(name)


def _need_version(version: int) -> None:
    if (bin_of(version) / "postgres").exists():
        return
    package = f"postgresql-{version}"
    if os.geteuid() == 0 and shutil.which("apt-get") is not None:
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", package], check=False)
    if not (bin_of(version) / "postgres").exists():
        raise PlaceMissing(f"no PostgreSQL {version} here: `apt-get install {package}`")


@contextmanager
def _language(directory: Path) -> Iterator[None]:
    """Make the C library find a language in a folder of ours: few machines have one installed."""
    folder = directory / "locales"
    if not folder.exists():
        folder.mkdir(parents=True)
        program = shutil.which("localedef")
        if program is None or not Path("/usr/share/i18n/locales/en_US").exists():
            raise PlaceMissing("the C library's languages cannot be made here: `apt-get install locales`")
        command = [program, "-i", "en_US", "-f", "UTF-8", "--no-archive", str(folder / LANGUAGE)]
        subprocess.run(command, check=True, capture_output=True)
        for each in (directory, folder, *folder.rglob("*")):
            each.chmod(0o755 if each.is_dir() else 0o644)
    before = os.environ.get("LOCPATH")
    os.environ["LOCPATH"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["LOCPATH"]
        else:
            os.environ["LOCPATH"] = before
