"""`make bench`: runs the benchmarks and prints their figures; ARGS chooses, e.g. ARGS="capture --rows 200000"."""

import argparse

from benchmarks import capture


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("which", nargs="?", choices=["capture"], default="capture", help="default: capture")
    parser.add_argument("--rows", type=int, default=500_000, help="row changes in each workload")
    parser.add_argument("--commits", type=int, default=200, help="commits in the latency benchmark")
    arguments = parser.parse_args()
    capture.run(rows=arguments.rows, commits=arguments.commits)


if __name__ == "__main__":
    main()
