"""`tidewire watch`: a live result as a table in the terminal, as lines, or as JSON lines."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence

import tidewire
from msgspec import Struct
from rich.console import Console
from rich.live import Live
from tidewire import Change, Subscription

from services.cli.watch_board import Board, Status
from services.cli.watch_lines import as_json, line_parts

# A frame is drawn this often at most, and a fading cell at least.
FRAME_S = 0.1


class Watched(Struct, frozen=True, kw_only=True):
    """What to watch, and for how long."""

    sql: str
    parameters: tuple[str | None, ...] = ()
    filter: str | None = None
    once: bool = False
    for_s: float | None = None


def run(dsn: str, watched: Watched, *, json: bool, colour: bool) -> int:
    """Show it until it has been long enough, or the user ends it."""
    asyncio.run(_watch(dsn, watched, json=json, colour=colour))
    return 0


async def _watch(dsn: str, watched: Watched, *, json: bool, colour: bool) -> None:
    async with (
        await tidewire.connect(dsn, lsn=True, settings={"application_name": "tidewire watch"}) as live,
        live.subscribe(watched.sql, watched.parameters, filter=watched.filter) as result,
    ):
        if json:
            await _show(result, watched, lambda change: print(as_json(change, result.columns), flush=True))
        elif sys.stdout.isatty() and not watched.once:
            await _draw(live, result, watched)
        elif watched.once:
            board = Board(watched.sql, result.columns)
            board.take(await anext(result), time.monotonic())
            console = Console(highlight=False, no_color=not colour)
            console.print(board.table(time.monotonic(), most_rows=None))
            console.print(_rows(len(result.rows)))
        else:
            await _show(result, watched, lambda change: _print_lines(change, result.columns, colour))


async def _show(result: Subscription, watched: Watched, show: Callable[[Change], None]) -> None:
    async for change in _changes(result, watched):
        if change is not None:
            show(change)
            if watched.once:
                return


async def _changes(result: Subscription, watched: Watched) -> AsyncIterator[Change | None]:
    """The changes until the time is over, and None whenever a frame's time has passed without one."""
    ends_s = time.monotonic() + watched.for_s if watched.for_s is not None else float("inf")
    while (left_s := ends_s - time.monotonic()) > 0:
        yield await result.next(min(FRAME_S, left_s))


async def _draw(live: tidewire.Live, result: Subscription, watched: Watched) -> None:
    console = Console(highlight=False)
    board, drawn_s = Board(watched.sql, result.columns), 0.0
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        async for change in _changes(result, watched):
            now_s = time.monotonic()
            if change is not None:
                board.take(change, now_s)
            if now_s - drawn_s >= FRAME_S or change is None:
                status = Status(rows=len(result.rows), lsn=result.lsn, trouble=live.trouble)
                screen.update(board.picture(now_s, status, height=console.height), refresh=True)
                drawn_s = now_s


def _print_lines(change: Change, columns: Sequence[str], colour: bool) -> None:
    for parts in line_parts(change, columns):
        print("".join(f"\x1b[{code}m{text}\x1b[0m" if code and colour else text for text, code in parts), flush=True)


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"
