"""What the supervisor asks of each part of the stack."""

import signal
from typing import Protocol


class Part(Protocol):
    """One server or service that runs as one process."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Parts that are ready before this one is started for the first time."""

    @property
    def address(self) -> str:
        """Where it answers, without secrets."""

    @property
    def environ(self) -> dict[str, str]:
        """What it finds in its environment beside ours."""

    @property
    def stop_signal(self) -> signal.Signals: ...

    def prepare(self) -> None:
        """Make its folders and files; called before each start, and cheap when all is there."""

    def command(self) -> list[str]:
        """The command line, which becomes the part's own process."""

    def not_ready(self) -> str | None:
        """Why it cannot do its work now, in a few words; None if it can."""
