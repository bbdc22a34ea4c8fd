"""Become the program named on the command line, tied to the life of the parent and, for PostgreSQL, not as root.

Run as a script by `identity.launch`, before anything of the project is imported: it starts in 20 ms and ends in `exec`,
so the process id that the parent holds is the program's own.
"""

import argparse
import ctypes
import os
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_KEEPCAPS = 8
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
CLONE_NEWUSER = 0x10000000
CAPABILITY_VERSION_3 = 0x20080522


class Header(ctypes.Structure):
    """`cap_user_header_t` of capset(2)."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class Capabilities(ctypes.Structure):
    """One half of `cap_user_data_t` of capset(2)."""

    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


libc = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: object) -> None:
    """Call a function of libc and turn a failure into an OSError."""
    if getattr(libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def enter_user_namespace(inside: int) -> None:
    """Be user `inside` of a namespace of our own; the files of the outer user stay reachable as the owner's."""
    user, group = os.geteuid(), os.getegid()
    call("unshare", CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{inside} {user} 1\n")
    Path("/proc/self/gid_map").write_text(f"{inside} {group} 1\n")


def become(user: int, capability: int) -> None:
    """Drop root for `user`, and keep the one capability that opens the folders only root may enter."""
    call("prctl", PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    bit = 1 << capability
    halves = (Capabilities * 2)(Capabilities(bit, bit, bit), Capabilities(0, 0, 0))
    call("capset", ctypes.byref(Header(CAPABILITY_VERSION_3, 0)), ctypes.byref(halves))
    call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0)


def die_with(parent: int, signal: int) -> None:
    """Ask the kernel for `signal` when the parent ends, and leave if it ended already."""
    call("prctl", PR_SET_PDEATHSIG, signal, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


def main() -> None:
    """Parse, change identity, tie to the parent, exec."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--death-signal", type=int, required=True)
    parser.add_argument("--map-user", type=int)
    parser.add_argument("--user", type=int)
    parser.add_argument("--capability", type=int)
    parser.add_argument("command", nargs="+")
    chosen = parser.parse_args()
    if chosen.map_user is not None:
        enter_user_namespace(chosen.map_user)
    elif chosen.user is not None:
        become(chosen.user, chosen.capability)
    # A change of credentials clears the death signal (prctl(2)), so it comes last.
    die_with(chosen.parent, chosen.death_signal)
    # What the program writes is for its owner alone.
    os.umask(0o077)
    os.execvp(chosen.command[0], chosen.command)


if __name__ == "__main__":
    main()
