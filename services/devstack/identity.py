"""As whom a program runs: tied to us always, and as somebody else than root where it refuses root."""

import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

from msgspec import Struct

from services.devstack.errors import MissingPart

LAUNCHER = Path(__file__).with_name("launch.py")
NOBODY = 65534
CAP_DAC_OVERRIDE = 1
CAP_DAC_READ_SEARCH = 2


class Identity(Struct, frozen=True):
    """The flags of the launcher, and the owner that the program's data needs outside."""

    flags: tuple[str, ...] = ()
    owner: int | None = None

    def launch(self, command: list[str], *, death_signal: int = signal.SIGKILL) -> list[str]:
        """The command line under which `command` dies with the process that starts it."""
        tie = ["--parent", str(os.getpid()), "--death-signal", str(int(death_signal))]
        return [sys.executable, "-I", "-S", str(LAUNCHER), *tie, *self.flags, "--", *command]

    def own(self, folder: Path) -> None:
        """Give a folder to whom the program will be outside."""
        if self.owner is not None:
            os.chown(folder, self.owner, self.owner)


OURSELVES = Identity()
NAMESPACED = Identity(flags=("--map-user", "1000"))
# For root where user namespaces are forbidden, as in Docker: another user, who keeps the one right to pass folders
# that only root may enter.
OTHER_USERS = tuple(
    Identity(flags=("--user", str(NOBODY), "--capability", str(capability)), owner=NOBODY)
    for capability in (CAP_DAC_READ_SEARCH, CAP_DAC_OVERRIDE)
)


def works(identity: Identity, program: Path) -> bool:
    """Whether this machine lets us run `program` so."""
    probe = identity.launch([str(program), "--version"])
    return subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0


@cache
def unprivileged(program: Path) -> Identity:
    """The first way of running `program` as somebody else than root that works here."""
    if os.geteuid() != 0:
        return OURSELVES
    for identity in (NAMESPACED, *OTHER_USERS):
        if works(identity, program):
            return identity
    raise MissingPart(
        f"{program} refuses to run as root, and neither user namespaces nor a change of user are allowed here: "
        "run make as an ordinary user"
    )
