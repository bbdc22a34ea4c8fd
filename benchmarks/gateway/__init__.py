"""The gateway against the least that could stand in its place: a bare forwarder, a bare server of the same bytes."""

from collections.abc import Callable

from benchmarks.gateway import live, proxied, spread

# What `--only` chooses from, in the order in which they run.
PARTS: dict[str, Callable[[], None]] = {"proxied": proxied.run, "spread": spread.run, "live": live.run}


def run(only: list[str]) -> None:
    for name in only or PARTS:
        PARTS[name]()
