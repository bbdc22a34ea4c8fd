"""The process that starts every part, restarts what dies or stays unready, and takes all of it down with itself."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from functools import partial

from structlog.typing import FilteringBoundLogger

from services.devstack import endpoints, state
from services.devstack.child import Child
from services.devstack.stack import Stack


class Supervisor:
    """All children of one stack; publishes their state and the endpoints at each change."""

    def __init__(
        self,
        stack: Stack,
        environ: Mapping[str, str],
        log: FilteringBoundLogger,
        *,
        restart_unready_after_s: float,
    ) -> None:
        self._stack = stack
        self._log = log
        self._complete = False
        self._published: tuple[state.PartState, ...] = ()
        self._children = [
            Child(
                part,
                home=stack.home,
                environ=environ,
                changed=self._publish,
                needs_are_ready=partial(self._are_ready, part.needs),
                restart_unready_after_s=restart_unready_after_s,
            )
            for part in stack.parts
        ]

    async def run(self) -> None:
        """Keep the stack up until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, stop.set)
        self._publish()
        ready = {child.part.name: child.was_ready for child in self._children}
        try:
            async with asyncio.TaskGroup() as group:
                keepers = [
                    group.create_task(
                        # What the user brings was there before us.
                        child.keep([ready[need] for need in child.part.needs if need in ready]),
                        name=child.part.name,
                    )
                    for child in self._children
                ]
                keepers.append(group.create_task(self._announce()))
                await stop.wait()
                for keeper in keepers:
                    keeper.cancel()
        finally:
            await self._stop()

    def _are_ready(self, names: tuple[str, ...]) -> bool:
        return all(child.state.phase == "ready" for child in self._children if child.part.name in names)

    async def _announce(self) -> None:
        """Write the endpoints once every part was ready, and from then on at each change."""
        for child in self._children:
            await child.was_ready.wait()
        self._complete = True
        self._publish()
        self._log.info("stack_ready")

    async def _stop(self) -> None:
        for child in reversed(self._children):
            await child.stop()
        with contextlib.suppress(FileNotFoundError):
            self._stack.home.endpoints.unlink()

    def _publish(self) -> None:
        parts = tuple(child.state for child in self._children)
        for before, after in zip(self._published or parts, parts, strict=True):
            if before.phase != after.phase:
                facts = {"pid": after.pid, "restarts": after.restarts, "last_exit": after.last_exit}
                facts |= {"reason": after.reason} if after.reason else {}
                self._log.info("part_changed", part=after.name, phase=after.phase, **facts)
        self._published = parts
        state.write(self._stack.home, state.State(supervisor=os.getpid(), parts=parts))
        if self._complete:
            endpoints.write(self._stack, {part.name: part.pid for part in parts if part.pid is not None})
