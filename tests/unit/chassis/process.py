"""A small service for the tests of starting and stopping: its first argument says how it behaves."""

import asyncio
import sys

from msgspec import Struct

from services.chassis.health import Http
from services.chassis.run import Stop, entry, run


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    http: Http


class Unlucky(Exception):
    retry = True


class Misconfigured(Exception):
    retry = False


def loop(settings: Settings) -> None:
    stop = Stop().on_signals()
    print("turning", flush=True)
    while not stop.wait(60):
        pass
    print("left the loop", flush=True)


def loop_async(settings: Settings) -> None:
    async def turn() -> None:
        print("turning", flush=True)
        try:
            await asyncio.sleep(60)
        finally:
            print("left the loop", flush=True)

    asyncio.run(run(turn=turn()))


def fail_async(settings: Settings) -> None:
    async def fail() -> None:
        raise Misconfigured("the table is on fire: put it out")

    asyncio.run(run(fail=fail()))


def slow_start(settings: Settings) -> None:
    print("turning", flush=True)
    Stop().wait(60)


def unlucky(settings: Settings) -> None:
    raise Unlucky("the moon is full: wait")


def broken(settings: Settings) -> None:
    raise ZeroDivisionError


BEHAVIOURS = {function.__name__: function for function in (loop, loop_async, fail_async, slow_start, unlucky, broken)}

if __name__ == "__main__":
    entry(BEHAVIOURS[sys.argv[1]], service="toy", description="A toy.", settings_type=Settings, argv=sys.argv[2:])
