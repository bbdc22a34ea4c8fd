"""Recompute against Spark itself and against PostgreSQL: what a change, a tuple, a join and a replica cost."""

from collections.abc import Callable

from benchmarks.recompute import bench, evaluated, followed

# What `--only` chooses from, in the order in which they run.
PARTS: dict[str, Callable[[bench.Bench], None]] = {
    "tuples": evaluated.tuples,
    "join": evaluated.join,
    "memory": evaluated.memory,
    "latency": followed.latency,
    "load": followed.load,
}


def run(only: list[str], *, rows: int) -> None:
    with bench.started(rows=rows) as made:
        for name in only or PARTS:
            PARTS[name](made)
