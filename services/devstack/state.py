"""The state of the parts, as a file that the supervisor writes and other commands read; and the supervisor's lock."""

import fcntl
import os
import struct
from pathlib import Path

import msgspec
import psutil
from msgspec import Struct

from services.devstack.home import Home, replace

# struct flock of fcntl(2) on 64-bit Linux: type, whence, start, length, pid.
FLOCK = "hhqqi0q"


class PartState(Struct, frozen=True, kw_only=True):
    """One part: its phase, its process, how often it was restarted and how it ended last."""

    name: str
    phase: str
    address: str
    pid: int | None = None
    born: float = 0.0
    restarts: int = 0
    last_exit: str = ""
    # Why it is not ready.
    reason: str = ""
    took_s: float = 0.0


class State(Struct, frozen=True, kw_only=True):
    """All parts of a stack under one supervisor."""

    supervisor: int
    parts: tuple[PartState, ...]


def write(home: Home, state: State) -> None:
    """Publish the state."""
    replace(home.state, msgspec.json.encode(state))


def read(home: Home) -> State | None:
    """The state as last published, by a supervisor that may be dead."""
    return msgspec.json.decode(home.state.read_bytes(), type=State) if home.state.exists() else None


def live(home: Home) -> State | None:
    """The state of a stack whose supervisor lives, or None."""
    state = read(home)
    return state if state is not None and state.supervisor == holder(home.lock) else None


def lock(path: Path) -> int | None:
    """Take the lock of a stack for the life of this process; None if another holds it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def holder(path: Path) -> int | None:
    """The process that holds the lock, asked without taking it."""
    if not path.exists():
        return None
    with path.open("rb+") as file:
        question = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, question))
    return pid if kind != fcntl.F_UNLCK else None


def born(pid: int) -> float:
    """When a process started, which with its id identifies it for good; 0 if there is none or it is a zombie."""
    try:
        process = psutil.Process(pid)
        return 0.0 if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return 0.0


def alive(part: PartState) -> bool:
    """Whether the very process of this state runs."""
    return part.pid is not None and part.born != 0.0 and born(part.pid) == part.born
