"""A table of the parts as they are now."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from services.devstack import outside, state
from services.devstack.errors import StackIsDown
from services.devstack.home import Home
from services.devstack.part import Part
from services.devstack.settings import Settings
from services.devstack.stack import Outside, assemble, remembered_ports

LONGEST = 100
COLUMNS = ("part", "state", "pid", "restarts", "address", "lag", "last exit")


class Status(Struct, frozen=True):
    """The rows of the table, and whether every part answers."""

    rows: tuple[tuple[str, ...], ...]
    ready: bool

    def table(self) -> str:
        """Aligned columns under their names."""
        lines = (COLUMNS, *self.rows)
        widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        )


def ask(settings: Settings, home: Home, environ: Mapping[str, str]) -> Status:
    """Ask each part itself, beside what the supervisor knows of it."""
    running = state.live(home)
    if running is None:
        raise StackIsDown(home.root)
    stack = assemble(outside.as_running(settings, home), home, remembered_ports(home), environ)
    asked: tuple[Part | Outside, ...] = (*stack.outside, *stack.parts)
    with ThreadPoolExecutor() as pool:
        answers = dict(zip((each.name for each in asked), pool.map(_asked, asked), strict=True))
    lag = {service.name: service.lag() for service in stack.services}
    known = [part for part in running.parts if part.name in answers]
    rows = (
        *(_outside_row(server, answers[server.name]) for server in stack.outside),
        *(_row(part, answers[part.name], lag.get(part.name, "")) for part in known),
    )
    ready = all(part.phase == "ready" for part in known) and not any(answers.values())
    return Status(rows=rows, ready=ready)


def _asked(server: Part | Outside) -> str | None:
    return server.not_ready()


def _outside_row(server: Outside, reason: str | None) -> tuple[str, ...]:
    return (server.name, f"not ready: {_short(reason)}" if reason else "yours", "-", "-", server.address, "-", "-")


def _short(text: str) -> str:
    """On one line of a table."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _row(part: state.PartState, reason: str | None, lag: str) -> tuple[str, ...]:
    """The part's own answer goes before what the supervisor heard some seconds ago."""
    phase = part.phase
    if phase in ("ready", "not ready"):
        phase = f"not ready: {_short(reason)}" if reason else "ready"
    elif phase == "starting" and reason:
        phase = f"starting: {_short(reason)}"
    pid = str(part.pid) if part.pid is not None and part.phase not in ("restarting", "waiting") else "-"
    return (part.name, phase, pid, str(part.restarts), part.address, lag or "-", _short(part.last_exit) or "-")
