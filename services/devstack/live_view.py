"""How the demo is shown: commits and what a client gets of them, side by side on a screen, or as lines."""

import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from rich.console import Console, Group
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.text import Text
from tidewire import Change

from proto.streams.changes import ChangeEvent
from services.cli import tail, watch_lines
from services.cli.watch_board import Board, Status

KEPT_LINES = 200


class View(Protocol):
    """Where the demo's events go."""

    def committed(self, event: ChangeEvent) -> None: ...

    def changed(self, change: Change, columns: Sequence[str]) -> None: ...

    def tick(self, status: Status) -> None: ...


class Lines:
    """A line for each change of a table, and after ▸ what the client was told."""

    def committed(self, event: ChangeEvent) -> None:
        line = tail.coloured(tail.line_parts(event), sys.stdout.isatty())
        if line:
            print(line, flush=True)

    def changed(self, change: Change, columns: Sequence[str]) -> None:
        for parts in watch_lines.line_parts(change, columns):
            print(tail.coloured(iter((("  ▸ live ", "1;34"), *parts)), sys.stdout.isatty()), flush=True)

    def tick(self, status: Status) -> None:
        pass


class Screen:
    """Commits on the left; on the right the live result, the address of its page, and its deltas."""

    def __init__(self, sql: str, columns: Sequence[str], address: str) -> None:
        self._address = address
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._board = Board(sql, columns)
        self._commits: deque[Text] = deque(maxlen=KEPT_LINES)
        self._deltas: deque[Text] = deque(maxlen=KEPT_LINES)

    def __enter__(self) -> "Screen":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def committed(self, event: ChangeEvent) -> None:
        line = _text(tail.line_parts(event))
        if line.plain:
            self._commits.append(line)

    def changed(self, change: Change, columns: Sequence[str]) -> None:
        self._board.take(change, time.monotonic())
        self._deltas.extend(_text(iter(parts)) for parts in watch_lines.line_parts(change, columns))

    def tick(self, status: Status) -> None:
        height = self._console.height
        layout = Layout()
        layout.split_row(Layout(name="commits", ratio=3), Layout(name="live", ratio=2))
        layout["commits"].update(Panel(_last(self._commits, height - 2), title="what PostgreSQL committed"))
        board = self._board.picture(time.monotonic(), status, height=height // 2)
        deltas = _last(self._deltas, height - height // 2 - 4)
        layout["live"].split_column(
            Layout(Panel(board, title="a live query of it, through the client", subtitle=self._address), ratio=1),
            Layout(Panel(deltas, title="its deltas"), ratio=1),
        )
        self._live.update(layout, refresh=True)


def _text(parts: Iterator[tuple[str, str]]) -> Text:
    """The pieces with the colours of their terminal codes, on one line."""
    coded = "".join(f"\x1b[{code}m{text}\x1b[0m" if code else text for text, code in parts)
    line = Text.from_ansi(coded.encode("utf-8", "backslashreplace").decode())
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _last(lines: deque[Text], count: int) -> Group:
    return Group(*list(lines)[-max(count, 1) :])
