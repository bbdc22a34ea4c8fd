"""One part under supervision: started, watched, and started again whenever its process ends."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from services.devstack.errors import DevstackFailure
from services.devstack.home import Home, open_log
from services.devstack.part import Part
from services.devstack.settings import PROJECT
from services.devstack.state import PartState, born

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
HEALTHY_AFTER_S = 60.0
PROBE_EVERY_S = 0.1
# How often a part that is ready is asked whether it still is.
WATCH_EVERY_S = 5.0
STOP_WITHIN_S = 15.0
# A service that was uninstalled from its database ends like this: starting it again would install it again.
RESIGNED = "exit 3"


def pause_s(failures: int) -> float:
    """How long to wait before the next start, after so many short runs in a row."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(failures, 10))


def describe(code: int) -> str:
    """An exit code in words."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit {code}"


class Child:
    """A part, its process, and the count of its restarts; `changed` is called after each change of state."""

    def __init__(
        self,
        part: Part,
        *,
        home: Home,
        environ: Mapping[str, str],
        changed: Callable[[], None],
        needs_are_ready: Callable[[], bool] = lambda: True,
        restart_unready_after_s: float = 60.0,
    ) -> None:
        self.part = part
        self._needs_are_ready, self._restart_unready_after_s = needs_are_ready, restart_unready_after_s
        self._restarted_because = ""
        self.was_ready = asyncio.Event()
        self.state = PartState(name=part.name, phase="waiting", address=part.address)
        self._log = home.log(part.name)
        self._environ = environ
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._started = time.monotonic()
        self._ready_at: float | None = None

    async def keep(self, needs: Iterable[asyncio.Event]) -> None:
        """Start the part when its needs were met once, and again whenever it ends, unless it resigns."""
        for need in needs:
            await need.wait()
        failures = 0
        while True:
            ended = await self._run_once()
            healthy_s = time.monotonic() - self._ready_at if self._ready_at is not None else 0.0
            failures = 0 if healthy_s >= HEALTHY_AFTER_S else failures
            if ended == RESIGNED:
                self._set(phase="resigned", last_exit=ended)
                return
            self._set(phase="restarting", reason="", restarts=self.state.restarts + 1, last_exit=ended)
            await asyncio.sleep(pause_s(failures))
            failures += 1

    async def stop(self) -> None:
        """End the process: asked first, then made to."""
        process = self._process
        if process is not None and process.returncode is None:
            self._set(phase="stopping")
            await self._end(process)
        self._set(phase="stopped", reason="")

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        # One that stands under SIGSTOP would not see the request.
        process.send_signal(signal.SIGCONT)
        process.send_signal(self.part.stop_signal)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_WITHIN_S)
        self._end_group()
        await process.wait()

    async def _run_once(self) -> str:
        """Run the process once, from preparation to its end; returns how it ended."""
        self._started, self._ready_at, self._restarted_because = time.monotonic(), None, ""
        self._set(phase="starting", reason="")
        try:
            await asyncio.to_thread(self.part.prepare)
        except DevstackFailure as failure:
            with open_log(self._log) as log:
                log.write(f"{failure}\n".encode())
            return "not prepared"
        with open_log(self._log) as log:
            self._process = process = await asyncio.create_subprocess_exec(
                *self.part.command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**self._environ, **self.part.environ},
                cwd=PROJECT,
                start_new_session=True,
            )
        self._set(pid=process.pid, born=born(process.pid))
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch(process), name=f"{self.part.name} ready")
            code = await process.wait()
            watch.cancel()
        self._end_group()
        return self._restarted_because or describe(code)

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Wait until the part is ready, and end it if it is not any more, for too long and by its own fault."""
        while await asyncio.to_thread(self.part.not_ready) is not None:
            await asyncio.sleep(PROBE_EVERY_S)
        self._ready_at = time.monotonic()
        self._set(phase="ready", took_s=self._ready_at - self._started)
        self.was_ready.set()
        unready_s, every_s = 0.0, min(WATCH_EVERY_S, self._restart_unready_after_s / 4)
        while unready_s < self._restart_unready_after_s:
            await asyncio.sleep(every_s)
            reason = await asyncio.to_thread(self.part.not_ready)
            phase, reason = ("ready", "") if reason is None else ("not ready", reason)
            if (phase, reason) != (self.state.phase, self.state.reason):
                self._set(phase=phase, reason=reason)
            # A part whose needs are not there would not get better by a restart.
            unready_s = unready_s + every_s if reason and self._needs_are_ready() else 0.0
        self._restarted_because = f"restarted, not ready for {unready_s:.0f} s: {self.state.reason}"
        await self._end(process)

    def _end_group(self) -> None:
        """Kill what the process started and left behind; it led a process group of its own."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _set(self, **facts: object) -> None:
        self.state = msgspec.structs.replace(self.state, **facts)
        self._changed()
