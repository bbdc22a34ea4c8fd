"""`make bench`: runs the benchmarks and prints their figures; ARGS chooses, e.g. ARGS="capture --rows 200000"."""

import argparse

from benchmarks import capture, cdc, gateway, notify, recompute, routes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "which",
        nargs="?",
        choices=["capture", "recompute", "gateway", "cdc", "routes", "notify"],
        default="capture",
        help="default: capture",
    )
    parser.add_argument("--rows", type=int, default=500_000, help="row changes in each workload")
    parser.add_argument("--commits", type=int, default=200, help="commits in the latency benchmark")
    parts = [*recompute.PARTS, *gateway.PARTS]
    parser.add_argument("--only", nargs="+", choices=parts, default=[], help="parts of recompute's or the gateway's")
    parser.add_argument("--table", type=int, default=1_000_000, help="rows of recompute's table")
    parser.add_argument("--sockets", type=int, default=10_000, help="idle WebSockets of the NOTIFY door")
    arguments = parser.parse_args()
    if arguments.which == "recompute":
        recompute.run(arguments.only, rows=arguments.table)
    elif arguments.which == "gateway":
        gateway.run(arguments.only)
    elif arguments.which == "cdc":
        cdc.run(rows=arguments.rows, commits=arguments.commits)
    elif arguments.which == "routes":
        routes.run(rows=arguments.rows)
    elif arguments.which == "notify":
        notify.run(sockets=arguments.sockets)
    else:
        capture.run(rows=arguments.rows, commits=arguments.commits)


if __name__ == "__main__":
    main()
