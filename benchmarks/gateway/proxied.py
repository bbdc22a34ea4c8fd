"""pgbench -S through the gateway, through a bare forwarder, and directly, in turns."""

import os
import re
import subprocess
import sys
from statistics import median

from psycopg.conninfo import conninfo_to_dict

from benchmarks.gateway.bench import Bench, started
from services.devstack.ports import free_port

CLIENTS, SECONDS, ROUNDS, SCALE = 8, 4, 5, 10


def run() -> None:
    with started() as bench, bench.gateway() as gateway:
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.gateway.forwarder", str(port), str(bench.server.port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarder:
            assert forwarder.stdout is not None and forwarder.stdout.readline() == "ready\n"
            try:
                _pgbench(bench, bench.server.port, "-i", "-q", "-s", str(SCALE))
                for protocol in ("simple", "prepared"):
                    _compare(bench, protocol, {"direct": bench.server.port, "bare": port, "gateway": gateway})
            finally:
                forwarder.terminate()


def _compare(bench: Bench, protocol: str, ports: dict[str, int]) -> None:
    """In turns, so that a busy moment of the machine falls on all."""
    rates: dict[str, list[float]] = {name: [] for name in ports}
    for _ in range(ROUNDS):
        for name, port in ports.items():
            words = _pgbench(bench, port, "-S", "-n", "-M", protocol, "-c", str(CLIENTS), "-T", str(SECONDS))
            found = re.search(r"tps = ([\d.]+) \(without", words)
            assert found is not None, words
            rates[name].append(float(found[1]))
    middle = {name: median(found) for name, found in rates.items()}
    print(
        f"pgbench -S -M {protocol:<9} direct {middle['direct']:>9,.0f}/s   forwarder {middle['bare']:>9,.0f}/s   "
        f"gateway {middle['gateway']:>9,.0f}/s   forwarder/direct {middle['bare'] / middle['direct']:.2f}   "
        f"gateway/forwarder {middle['gateway'] / middle['bare']:.2f}  (≥ 0.8)",
        flush=True,
    )


def _pgbench(bench: Bench, port: int, *arguments: str) -> str:
    parts = conninfo_to_dict(bench.server.dsn)
    environ = {**os.environ, "PGPASSWORD": str(parts["password"]), "LC_ALL": "C"}
    where = ["-h", "127.0.0.1", "-p", str(port), "-U", str(parts["user"]), str(parts["dbname"])]
    done = subprocess.run(
        [bench.server.bin / "pgbench", *arguments, *where], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout
