"""Which TCP ports of 127.0.0.1 the parts of a stack use."""

import random
import socket
from pathlib import Path

import msgspec

from services.devstack.errors import PortTaken
from services.devstack.home import replace

# Below Linux's range for outgoing connections: a part that restarts must find its port free, and the kernel
# would lend one of that range to any client in the meantime.
CHOICES = range(15000, 32000)


def is_free(port: int) -> bool:
    """Whether a server could listen there now; connections of a dead one in TIME_WAIT do not count."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port(taken: frozenset[int] = frozenset()) -> int:
    """A port that nobody listens on."""
    while True:
        port = random.choice(CHOICES)
        if port not in taken and is_free(port):
            return port


def remembered(memory: Path) -> dict[str, int]:
    """The ports that a stack had last."""
    return msgspec.json.decode(memory.read_bytes(), type=dict[str, int]) if memory.exists() else {}


class Ports:
    """The ports of one stack: those the user fixed, those it had last time if still free, else new ones."""

    def __init__(self, memory: Path) -> None:
        self._memory = memory
        self._known = remembered(memory)

    def take(self, name: str, wanted: int | None, variable: str) -> int:
        """Settle the port of `name` for a stack that starts now."""
        port = self._known.get(name) if wanted is None else wanted
        others = frozenset(taken for other, taken in self._known.items() if other != name)
        if wanted is not None and not is_free(wanted):
            raise PortTaken(wanted, variable)
        if port is None or (wanted is None and (port in others or not is_free(port))):
            port = free_port(others)
        self._known[name] = port
        replace(self._memory, msgspec.json.encode(self._known))
        return port
