"""A part that stays unready is restarted, and says why until then."""

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from services.devstack.child import Child
from services.devstack.home import Home


class Sleeper(msgspec.Struct, frozen=True):
    """A part that does nothing; it is ready while the file `trouble` is not there."""

    trouble: Path
    name: str = "sleeper"
    needs: tuple[str, ...] = ()
    address: str = "nowhere"
    environ: dict[str, str] = {}
    stop_signal: signal.Signals = signal.SIGTERM

    def prepare(self) -> None:
        pass

    def command(self) -> list[str]:
        return [sys.executable, "-c", "import time; time.sleep(600)"]

    def not_ready(self) -> str | None:
        return self.trouble.read_text() if self.trouble.exists() else None


@asynccontextmanager
async def kept(sleeper: Sleeper, home: Home, needs_are_ready=lambda: True):
    home.make()
    child = Child(
        sleeper,
        home=home,
        environ=os.environ,
        changed=lambda: None,
        needs_are_ready=needs_are_ready,
        restart_unready_after_s=1.0,
    )
    keeper = asyncio.create_task(child.keep([]))
    try:
        await becomes(child, lambda: child.state.phase == "ready")
        yield child
    finally:
        keeper.cancel()
        await child.stop()


async def becomes(child: Child, condition, within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            assert child.state.phase != "stopped"
            await asyncio.sleep(0.02)


async def test_a_part_that_stays_unready_is_restarted_and_the_reason_is_kept(tmp_path):
    sleeper = Sleeper(tmp_path / "trouble")
    async with kept(sleeper, Home(tmp_path / "home")) as child:
        before = child.state.pid
        sleeper.trouble.write_text("its loop has died")
        await becomes(child, lambda: child.state.phase == "not ready")
        assert (child.state.reason, child.state.pid) == ("its loop has died", before)
        await becomes(child, lambda: child.state.restarts == 1)
        sleeper.trouble.unlink()
        await becomes(child, lambda: child.state.phase == "ready")
        assert child.state.last_exit == "restarted, not ready for 1 s: its loop has died"
        assert (child.state.pid != before, child.state.reason) == (True, "")


async def test_a_part_that_gets_ready_again_in_time_goes_on(tmp_path):
    sleeper = Sleeper(tmp_path / "trouble")
    async with kept(sleeper, Home(tmp_path / "home")) as child:
        before = child.state.pid
        sleeper.trouble.write_text("for a moment")
        await becomes(child, lambda: child.state.phase == "not ready")
        sleeper.trouble.unlink()
        await becomes(child, lambda: child.state.phase == "ready")
        assert (child.state.pid, child.state.restarts, child.state.reason) == (before, 0, "")


async def test_a_part_whose_needs_are_missing_is_left_alone(tmp_path):
    """A restart would not bring Kafka back; the time counts from when its needs are there again."""
    there = [False]
    sleeper = Sleeper(tmp_path / "trouble")
    async with kept(sleeper, Home(tmp_path / "home"), lambda: there[0]) as child:
        sleeper.trouble.write_text("Kafka does not answer")
        with pytest.raises(TimeoutError):
            await becomes(child, lambda: child.state.restarts, within_s=2.5)
        assert child.state.phase == "not ready"
        there[0] = True
        await becomes(child, lambda: child.state.restarts == 1)
