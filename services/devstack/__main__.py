"""`python -m services.devstack up|down|status|logs|endpoint|run`: the embedded stack from the command line."""

import argparse
import asyncio
import os
import shutil
import sys
from functools import partial
from pathlib import Path

from services.chassis.logs import configure
from services.devstack import control, endpoints, logs, outside, own_database, state, status
from services.devstack.errors import DevstackFailure
from services.devstack.home import Home
from services.devstack.settings import Settings, load
from services.devstack.stack import assemble, settle_ports
from services.devstack.supervisor import Supervisor


def say(line: str) -> None:
    """Print at once, also into a pipe."""
    print(line, flush=True)


def run(settings: Settings, home: Home) -> None:
    """Be the supervisor, in the foreground, until SIGTERM or Ctrl-C."""
    # All that the stack writes is for its owner alone.
    os.umask(0o077)
    home.make()
    lock = state.lock(home.lock)
    if lock is None:
        say(f"another supervisor keeps the stack in {home.root}")
        return
    control.reclaim(home)
    outside.remember(home, settings)
    stack = assemble(settings, home, settle_ports(settings, home), os.environ)
    supervisor = Supervisor(
        stack, os.environ, configure("devstack"), restart_unready_after_s=settings.restart_unready_after_s
    )
    asyncio.run(supervisor.run())


def examine_own(settings: Settings, *, agreed: bool) -> None:
    """Let doctor see a database that the user brings, and ask him before anything is put into it."""
    if settings.postgres_dsn:
        is_person = sys.stdin is not None and sys.stdin.isatty()
        own_database.examine(settings.postgres_dsn, agreed=agreed, ask=agrees if is_person else None, say=say)


def agrees(question: str) -> bool:
    return input(question).strip().lower() in ("y", "yes")


def wipe(home: Home) -> None:
    """Remove all that a stack wrote except the jars."""
    for entry in home.root.iterdir() if home.root.exists() else ():
        if entry.name == "jars":
            continue
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(prog="python -m services.devstack", description="The embedded stack.")
    commands = top.add_subparsers(dest="command", required=True)
    starting = commands.add_parser("up", help="start the stack, detached, and wait until every part is ready")
    starting.add_argument("--yes", action="store_true", help="install into the database of POSTGRES_DSN without asking")
    ending = commands.add_parser("down", help="stop everything")
    ending.add_argument("--wipe", action="store_true", help="and remove data, logs and credentials")
    commands.add_parser("status", help="a table of the parts; exit 1 if one is not ready")
    reading = commands.add_parser("logs", help="the last lines of the parts' logs")
    reading.add_argument("-f", "--follow", action="store_true", help="go on with new lines")
    reading.add_argument("part", nargs="?", help="only this part")
    asking = commands.add_parser("endpoint", help="one field of endpoints.json, for scripts")
    asking.add_argument("field")
    commands.add_parser("run", help="be the supervisor, in the foreground")
    return top


def obey(chosen: argparse.Namespace, settings: Settings, home: Home) -> int:
    """Carry out one command; returns the exit code."""
    match chosen.command:
        case "up":
            control.up(settings, home, say, partial(examine_own, settings, agreed=chosen.yes))
            say(f"endpoints are in {home.endpoints}")
        case "down":
            control.down(home, say)
            if chosen.wipe:
                wipe(home)
                say(f"removed data, logs and credentials from {home.root}")
        case "status":
            now = status.ask(settings, home, os.environ)
            say(now.table())
            return 0 if now.ready else 1
        case "logs":
            for line in logs.lines(logs.chosen(home, chosen.part), follow=chosen.follow):
                say(line)
        case "endpoint":
            say(endpoints.read(home, chosen.field))
        case "run":
            run(settings, home)
    return 0


def main(arguments: list[str]) -> int:
    """Parse, obey, and turn a failure into one message and its exit code."""
    chosen = parser().parse_args(arguments)
    try:
        settings = load(os.environ)
        return obey(chosen, settings, Home(Path(settings.home).absolute()))
    except DevstackFailure as failure:
        print(f"devstack: {failure}", file=sys.stderr)
        return failure.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
