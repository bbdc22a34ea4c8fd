"""A process's beginning and end: the command line, SIGTERM, exit codes."""

import argparse
import asyncio
import faulthandler
import os
import select
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import FrameType
from typing import NoReturn, TypeVar

from msgspec import Struct

from services.chassis.settings import describe, load

SIGNALS = (signal.SIGTERM, signal.SIGINT)

S = TypeVar("S", bound=Struct)


class Stopped(Exception):
    """The process was asked to stop; leaving a TaskGroup takes an exception."""


class Stop:
    """Whether the process was asked to stop, for loops that are not asynchronous; its file can be selected on."""

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._requested = False

    def on_signals(self) -> "Stop":
        """Let SIGTERM and SIGINT request the stop; call it in the main thread."""
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        return self

    def request(self) -> None:
        """Ask for the stop."""
        # A pipe and not threading.Event: a handler that sets an Event while the main thread enters its wait would
        # deadlock on the Event's lock.
        if not self._requested:
            self._requested = True
            os.write(self._write_end, b"\0")

    @property
    def requested(self) -> bool:
        """Whether the stop was asked for."""
        return self._requested

    def wait(self, timeout_s: float) -> bool:
        """Wait until the stop is asked for, at most this long, and say whether it was."""
        select.select([self._read_end], [], [], max(timeout_s, 0))
        return self._requested

    def fileno(self) -> int:
        """Readable from the moment the stop is asked for."""
        return self._read_end

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.request()


async def run(**loops: Coroutine[None, None, None]) -> None:
    """Run the loops until SIGTERM or SIGINT cancels them, or one of them fails."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_stop_on_signal(), name="signals")
            for name, loop in loops.items():
                group.create_task(loop, name=name)
    except* Stopped:
        pass


async def _stop_on_signal() -> None:
    stopped = asyncio.Event()
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await stopped.wait()
    raise Stopped


def entry(
    main: Callable[[S], None],
    *,
    service: str,
    description: str,
    settings_type: type[S],
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> NoReturn:
    """Parse the command line, load the settings, run `main` with them, and end with the exit code of what happened."""
    parser = argparse.ArgumentParser(
        prog=f"python -m services.{service}",
        description=description,
        epilog="settings, from the environment:\n" + describe(settings_type),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args(argv)
    for number in SIGNALS:
        signal.signal(number, _leave_early)
    try:
        main(load(settings_type, environ))
    except Exception as error:  # the outermost frame: errors with a plan become a sentence, others keep their traceback
        code = exit_code(error)
        if code is None:
            raise
        print(f"{service}: {_only_cause(error)}", file=sys.stderr)
        sys.exit(code)
    sys.exit(0)


def end_at_once(service: str, reason: str) -> NoReturn:
    """End the process from any thread, where going on is worse than starting again; its stacks are left in the log."""
    print(f"{service}: {reason}: start again", file=sys.stderr)
    faulthandler.dump_traceback(sys.stderr, all_threads=True)
    sys.stderr.flush()
    os._exit(1)


def exit_code(error: Exception) -> int | None:
    """2 where the operator must change something, 1 where a new start may help, None where the error has no plan."""
    cause = _only_cause(error)
    code = getattr(cause, "exit_code", None)
    if isinstance(code, int):
        return code
    retry = getattr(cause, "retry", None)
    return None if retry is None else (1 if retry else 2)


def _only_cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _leave_early(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
