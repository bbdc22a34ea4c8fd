"""A table of the parts as they are now."""

from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from services.devstack import state
from services.devstack.errors import StackIsDown
from services.devstack.home import Home
from services.devstack.part import Part
from services.devstack.settings import Settings
from services.devstack.stack import assemble, remembered_ports

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


def ask(settings: Settings, home: Home) -> Status:
    """Ask each part itself, beside what the supervisor knows of it."""
    running = state.live(home)
    if running is None:
        raise StackIsDown(home.root)
    stack = assemble(settings, home, remembered_ports(home))
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(_answers, stack.parts))
    lag = {service.name: service.lag() for service in stack.services}
    parts = {part.name: part for part in running.parts}
    known = [
        (parts[part.name], answers) for part, answers in zip(stack.parts, answers, strict=True) if part.name in parts
    ]
    rows = tuple(_row(part, answers, lag.get(part.name, "")) for part, answers in known)
    return Status(rows=rows, ready=all(part.phase == "ready" and answers for part, answers in known))


def _answers(part: Part) -> bool:
    return part.ready()


def _row(part: state.PartState, answers: bool, lag: str) -> tuple[str, ...]:
    phase = "not ready" if part.phase == "ready" and not answers else part.phase
    pid = str(part.pid) if part.pid is not None and part.phase not in ("restarting", "waiting") else "-"
    return (part.name, phase, pid, str(part.restarts), part.address, lag or "-", part.last_exit or "-")
