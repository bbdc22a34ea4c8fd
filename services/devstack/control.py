"""Starting and ending a detached stack from another process."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from services.devstack import endpoints, outside, state
from services.devstack.child import RESIGNED
from services.devstack.errors import DevstackFailure, PartFailed, RunsElsewhere, SupervisorEnded
from services.devstack.home import Home, last_lines, open_log
from services.devstack.settings import PROJECT, Settings
from services.devstack.state import State

POLL_S = 0.05
DOWN_WITHIN_S = 60.0
BAD_PRECONDITION = "exit 2"
LOG_LIMIT_BYTES = 16 * 1024 * 1024

Say = Callable[[str], None]


def up(settings: Settings, home: Home, say: Say, before_start: Callable[[], None] = lambda: None) -> None:
    """Bring the stack up and return when every part is ready; what runs already is left alone."""
    running = state.live(home)
    if running is not None:
        _refuse_other_servers(settings, home)
    else:
        before_start()
    if running is not None and all(part.phase == "ready" for part in running.parts):
        endpoints.renew_token(home)
        say(f"the stack is up already, under supervisor {running.supervisor}")
        return
    supervisor = None if running is not None else _start(home, say)
    try:
        _await_ready(settings, home, supervisor, say)
    except DevstackFailure:
        if supervisor is not None:
            down(home, lambda _: None)
        raise


def _refuse_other_servers(settings: Settings, home: Home) -> None:
    """A stack that runs goes on with the servers it was started around."""
    wanted, found = outside.chosen(settings), outside.remembered(home)
    if wanted not in (found, outside.Choice()):
        raise RunsElsewhere("a stack runs already, around other servers: `make down` first")


def down(home: Home, say: Say) -> None:
    """End the stack and everything of it that a crash may have left."""
    supervisor = state.holder(home.lock)
    if supervisor is None:
        reclaim(home)
        say("no stack is running")
        return
    began = time.monotonic()
    os.kill(supervisor, signal.SIGTERM)
    gone: set[str] = set()
    while state.holder(home.lock) == supervisor and time.monotonic() - began < DOWN_WITHIN_S:
        gone |= _say_new(state.live(home), "stopped", gone, say)
        time.sleep(POLL_S)
    if state.holder(home.lock) == supervisor:
        os.kill(supervisor, signal.SIGKILL)
    reclaim(home)
    say(f"the stack is down after {time.monotonic() - began:.1f} s")
    if outside.remembered(home).postgres:
        say("your database is as it was while the stack ran: its slot keeps WAL until `make up DSN=…` or")
        say("`make uninstall DSN=…`, which takes all of Tidewire out of it")


def reclaim(home: Home) -> None:
    """Kill what a dead supervisor left running, and remove what it said about it."""
    left = state.read(home)
    for part in left.parts if left is not None else ():
        if state.alive(part) and part.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(part.pid, signal.SIGKILL)
            while state.alive(part):
                time.sleep(POLL_S)
    for stale in (home.state, home.endpoints):
        stale.unlink(missing_ok=True)


def _start(home: Home, say: Say) -> subprocess.Popen[bytes]:
    """Start a supervisor that outlives us."""
    home.make()
    for log in (home.root / "logs").glob("*.log"):
        if log.stat().st_size > LOG_LIMIT_BYTES:
            log.replace(log.with_suffix(".log.old"))
    say(f"starting the stack in {home.root}")
    with open_log(home.log("supervisor"), anew=True) as output:
        return subprocess.Popen(
            [sys.executable, "-m", "services.devstack", "run"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=PROJECT,
            start_new_session=True,
        )


def _await_ready(settings: Settings, home: Home, supervisor: subprocess.Popen[bytes] | None, say: Say) -> None:
    """Watch the parts until each is ready and the endpoints are written."""
    deadline = time.monotonic() + settings.ready_within_s
    seen: set[str] = set()
    while True:
        now = state.live(home)
        seen |= _say_new(now, "ready", seen, say)
        if now is not None and home.endpoints.exists() and all(part.phase == "ready" for part in now.parts):
            return
        _refuse_hopeless(now, home)
        if supervisor is not None and supervisor.poll() is not None and state.holder(home.lock) is None:
            raise SupervisorEnded(supervisor.returncode, last_lines(home.log("supervisor"), 5))
        if time.monotonic() > deadline:
            raise _late(now, home, settings.ready_within_s)
        time.sleep(POLL_S)


def _say_new(now: State | None, phase: str, seen: set[str], say: Say) -> set[str]:
    """Tell of each part that reached `phase` since we looked last."""
    reached = [part for part in (now.parts if now is not None else ()) if part.phase == phase and part.name not in seen]
    for part in reached:
        took = f" after {part.took_s:.1f} s at {part.address}" if phase == "ready" else ""
        say(f"  {part.name:<10} {phase}{took}")
    return {part.name for part in reached}


def _refuse_hopeless(now: State | None, home: Home) -> None:
    """A part that says its settings or preconditions are wrong will not get better by waiting."""
    for part in now.parts if now is not None else ():
        if part.last_exit in (BAD_PRECONDITION, RESIGNED) and part.phase != "ready":
            raise PartFailed(part.name, "refused to start", last_lines(home.log(part.name), 5))


def _late(now: State | None, home: Home, limit_s: float) -> PartFailed:
    late = [part for part in (now.parts if now is not None else ()) if part.phase != "ready"]
    if not late:
        return PartFailed(
            "the supervisor", f"did not answer within {limit_s:.0f} s", last_lines(home.log("supervisor"), 5)
        )
    # A part that only waits for another is not the culprit.
    culprit = next((part for part in late if part.phase != "waiting"), late[0])
    return PartFailed(culprit.name, f"did not get ready within {limit_s:.0f} s", last_lines(home.log(culprit.name), 10))
