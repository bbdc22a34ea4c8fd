"""What can go wrong with the embedded stack, each with what to do about it."""

from pathlib import Path


class DevstackFailure(Exception):
    """Any failure of the embedded stack; `exit_code` is what the command ends with."""

    exit_code = 1


class BadSetting(DevstackFailure):
    """An environment variable of the devstack is unknown or has an impossible value."""

    exit_code = 2


class MissingPart(DevstackFailure):
    """A program or file that the stack is made of is not on this machine."""

    exit_code = 2


class PortTaken(DevstackFailure):
    """A port that the user asked for is in use."""

    exit_code = 2

    def __init__(self, port: int, variable: str) -> None:
        super().__init__(f"port {port} of 127.0.0.1 is in use: set {variable} to a free one, or unset it to get one")
        self.port = port


class StackIsDown(DevstackFailure):
    """Something asked about a stack that is not running."""

    def __init__(self, home: Path) -> None:
        super().__init__(f"no stack is running in {home}: `make up` starts it")
        self.home = home


class NotAsked(DevstackFailure):
    """Something would be put into a database of the user's, and he has not agreed."""

    exit_code = 2


class DatabaseNotFit(DevstackFailure):
    """The database of the user cannot be watched as it is, or does not answer."""


class RunsElsewhere(DevstackFailure):
    """A stack runs already, around other servers than those that were named now."""

    exit_code = 2


class PartFailed(DevstackFailure):
    """A part could not be prepared or did not get ready; `log` holds its last lines."""

    def __init__(self, part: str, why: str, log: str = "") -> None:
        quoted = "".join(f"\n    {line}" for line in log.splitlines())
        super().__init__(f"{part} {why}{'; the end of its log:' if quoted else ''}{quoted}")
        self.part = part


class SupervisorEnded(DevstackFailure):
    """The supervisor ended before the stack was ready; it said why, and its exit code is ours."""

    def __init__(self, exit_code: int, said: str) -> None:
        super().__init__(said.removeprefix("devstack: ") or f"the supervisor ended with exit code {exit_code}")
        self.exit_code = exit_code or 1
