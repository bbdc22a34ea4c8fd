"""Capture against pg_recvlogical on the same WAL, and how long a commit takes until it can be read in Kafka."""

import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from proto.positions import parse_lsn
from proto.streams.changes import Committed
from services.changelog import barrier
from tests.fixtures.capture import CapturedDatabase
from tests.fixtures.kafka import start_kafka
from tests.fixtures.postgres import PostgresServer, start_postgres

# Once before capture and once after it: the first to decode a stretch of WAL also warms the caches for the others.
SLOTS = ("bench_before", "bench_after")
WARM_UP_COMMITS = 20

WORKLOADS = {
    "one transaction of inserts": "INSERT INTO rows SELECT i, i % 100, 'name ' || i FROM generate_series(1, {rows}) i",
    "one transaction of updates": "UPDATE rows SET amount = amount + 1",
    "many transactions of one row": None,
}


def run(*, rows: int, commits: int) -> None:
    with _stack() as (server, captured):
        captured.start().wait_ready().terminate()
        with captured.connect() as connection:
            connection.execute("CREATE TABLE rows (id bigint PRIMARY KEY, amount int, name text)")
            for slot in SLOTS:
                connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        print(f"{'workload':<32}{'pg_recvlogical':>16}{'capture':>12}{'ratio':>8}   (row changes a second)")
        for name, statement in WORKLOADS.items():
            _throughput(server, captured, name, statement, rows)
        _latency(captured, commits)


@contextmanager
def _stack() -> Iterator[tuple[PostgresServer, CapturedDatabase]]:
    with TemporaryDirectory() as folder:
        directory = Path(folder)
        # The tests' servers do not fsync; the ones that users run do.
        postgres = start_postgres(directory / "postgres", settings={"fsync": "on"})
        with postgres as server, start_kafka(directory / "kafka") as broker:
            captured = CapturedDatabase(server.dsn, broker, "", directory)
            try:
                yield server, captured
            finally:
                captured.end()


def _throughput(
    server: PostgresServer, captured: CapturedDatabase, name: str, statement: str | None, rows: int
) -> None:
    with captured.connect() as connection:
        if statement is None:
            rows //= 5
            _many_transactions(server, rows)
        else:
            connection.execute(statement.format(rows=rows).encode())
        end_lsn = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()[0]
        barrier.emit(connection)
    before_s = _pg_recvlogical(server, SLOTS[0], end_lsn)
    capture_s = _capture(captured, parse_lsn(end_lsn))
    reference_s = min(before_s, _pg_recvlogical(server, SLOTS[1], end_lsn))
    print(
        f"{name:<32}{rows / reference_s:>16,.0f}{rows / capture_s:>12,.0f}{reference_s / capture_s:>8.2f}", flush=True
    )


def _many_transactions(server: PostgresServer, rows: int) -> None:
    script = "\\set id random(1, 400000)\nUPDATE rows SET amount = :id WHERE id = :id;\n"
    with TemporaryDirectory() as folder:
        path = Path(folder) / "update.sql"
        path.write_text(script)
        command = ["-n", "-f", str(path), "-c", "8", "-j", "2", "-t", str(rows // 8), "-M", "prepared", server.dsn]
        environ = {**os.environ, "PGOPTIONS": "-c synchronous_commit=off"}
        subprocess.run([str(server.bin / "pgbench"), *command], check=True, capture_output=True, env=environ)


def _pg_recvlogical(server: PostgresServer, slot: str, end_lsn: str) -> float:
    """Seconds until pg_recvlogical has thrown the WAL up to `end_lsn` away."""
    names = ",".join(["tidewire", *(f"tidewire_{number:02}" for number in range(32))])
    options = ["proto_version=1", f"publication_names={names}", "messages=true"]
    command = [str(server.bin / "pg_recvlogical"), "-d", server.dsn, "--slot", slot, "--start", "-f", "/dev/null"]
    command += [f"--endpos={end_lsn}", "--fsync-interval=0"]
    for option in options:
        command += ["-o", option]
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - began


def _capture(captured: CapturedDatabase, target: int) -> float:
    """Seconds from taking the slot until Kafka has everything up to the LSN `target`."""
    process = captured.start(heartbeat_s="3600")
    try:
        process.wait_ready()
        while process.metric("tidewire_capture_durable_lsn") < target:
            time.sleep(0.02)
        ended = time.time()
        began = _logged_at(process.log, "slot_taken")
        memory_kb = _peak_memory_kb(process.process.pid)
        assert memory_kb < 300_000, f"capture took {memory_kb} kB"
        return ended - began
    finally:
        process.terminate()


def _logged_at(log: Path, event: str) -> float:
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry.get("event") == event:
            return datetime.fromisoformat(entry["time"]).timestamp()
    raise KeyError(event)


def _peak_memory_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise KeyError("VmHWM")


def _latency(captured: CapturedDatabase, commits: int) -> None:
    """From the moment that COMMIT returns until a reader of Kafka has the change."""
    captured.start().wait_ready()
    follower = captured.follow()
    follower.from_latest()
    waits_ms = []
    with captured.connect() as connection:
        for number in range(commits + WARM_UP_COMMITS):
            connection.execute("UPDATE rows SET amount = %s WHERE id = 1", (number,))
            committed = time.monotonic()
            while not any(isinstance(event, Committed) for event in follower.read(1.0)):
                pass
            waits_ms.append((time.monotonic() - committed) * 1000)
    follower.close()
    deciles = statistics.quantiles(waits_ms[WARM_UP_COMMITS:], n=100)
    print(
        f"commit to readable in Kafka, idle, {commits} commits: "
        f"p50 {deciles[49]:.1f} ms, p95 {deciles[94]:.1f} ms, p99 {deciles[98]:.1f} ms"
    )
