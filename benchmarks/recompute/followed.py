"""With a worker: from PostgreSQL's commit to the record in `deltas`."""

import threading
import time
from statistics import median

import pyarrow as pa

from benchmarks.recompute.bench import Bench, show
from services.recompute.core.catalog import PgType
from services.recompute.core.storage import arrow_column

COMMITS, WARM_UP = 60, 30
TEMPLATES = 100
# Long enough for a new base of the table in each third: one is made after every 100,000 changed rows.
CHANGES_A_SECOND, A_COMMIT, SECONDS = 2000, 20, 180
# The last third may be this much slower than the middle one before it is called growth.
GROWTH = 1.5
_TYPES = (PgType(20, "int8"), PgType(23, "int4"), PgType(1700, "numeric", ((10 << 16) | 2) + 4), PgType(25, "text"))


def latency(bench: Bench) -> None:
    """One row of a million changes: how long until a reader has the delta, beside a bare job over that row."""
    road = bench.road
    _ensure_worker(bench)
    follower = road.subscribe("SELECT id, status, amount FROM orders WHERE customer = 4711", within_s=300)
    told, bare = [], []
    for number in range(WARM_UP + COMMITS):
        wanted = b"%d.25" % number
        bench.execute(f"UPDATE orders SET amount = {number}.25 WHERE id = 4710")
        began_s = time.perf_counter()
        while wanted not in (row[2] for row in follower.rows):
            assert time.perf_counter() < began_s + 60, "no delta"
            road.pump(0.001)
        told.append((time.perf_counter() - began_s) * 1000)
        bare.append(_bare_ms(bench, number))
    show("one change to `deltas` / bare Spark job", median(told[WARM_UP:]), median(bare[WARM_UP:]), most=2)
    road.stop_all()


def load(bench: Bench) -> None:
    """Many changes a second over many templates: the lag of the last third against the middle one's."""
    road = bench.road
    _ensure_worker(bench)
    # Every tenth change is in one of the results; the names of the columns make them a hundred templates.
    sqls = [
        f"SELECT id, amount AS a{n} FROM orders WHERE customer BETWEEN {10 * n + 1} AND {10 * n + 10}"
        for n in range(TEMPLATES)
    ]
    followers = [road.ask(road.query(sql)) for sql in sqls]
    road.until(lambda: all(one.has_begun for one in followers), "the first results", 300)
    errors = [one.error for one in followers if one.error]
    assert not errors, errors[0]
    committed: list[tuple[int, float]] = []
    writer = threading.Thread(target=_write, args=(bench, committed), name="writer")
    writer.start()
    lags: list[tuple[float, float]] = []
    watched, began_s = followers[0], time.monotonic()
    while writer.is_alive() or len(lags) < len(committed):
        steps = len(watched.seen)
        road.pump(0.02)
        arrived_s = time.monotonic()
        if len(watched.seen) > steps:
            mark = next(float(row[1] or 0) for row in watched.rows if row[0] == b"10000")
            while len(lags) < len(committed) and committed[len(lags)][0] <= mark:
                lags.append((committed[len(lags)][1], arrived_s - committed[len(lags)][1]))
        assert arrived_s - began_s < 4 * SECONDS, f"{len(committed) - len(lags)} marks are still missing"
    writer.join()
    thirds: list[list[float]] = [[], [], []]
    for at_s, lag in lags:
        thirds[min(2, int((at_s - began_s) / SECONDS * 3))].append(lag)
    usual, worst = [median(third) for third in thirds], [max(third) for third in thirds]
    rate = CHANGES_A_SECOND * SECONDS / (max(at_s for at_s, _ in lags) - began_s)
    print(f"{rate:,.0f} changes/s over {TEMPLATES} templates for {SECONDS} s: lag by thirds {_shown(usual)}")
    print(f"  the worst of each third {_shown(worst)}; new bases made: {len(road.worker.said('table_compacted'))}")
    show("lag of the last third / of the middle one", usual[2] * 1000, usual[1] * 1000, most=GROWTH)
    road.stop_all()


def _write(bench: Bench, committed: list[tuple[int, float]]) -> None:
    """Each commit changes some rows; once a second it is one that marks the row that is watched."""
    with bench.road.connect() as connection:
        began_s, commits = time.monotonic(), CHANGES_A_SECOND * SECONDS // A_COMMIT
        for number in range(commits):
            while time.monotonic() < began_s + number * A_COMMIT / CHANGES_A_SECOND:
                time.sleep(0.001)
            first = 2 + number * A_COMMIT % 500_000
            change = f"UPDATE orders SET amount = amount + 1 WHERE id >= {first} AND id < {first + A_COMMIT}"
            if number % (commits // SECONDS):
                connection.execute(change.encode())
                continue
            mark = 1000 + len(committed)
            with connection.transaction():
                connection.execute(change.encode())
                connection.execute(f"UPDATE orders SET amount = {mark}.50 WHERE id = 10000".encode())
            committed.append((mark, time.monotonic()))


def _bare_ms(bench: Bench, number: int) -> float:
    """The least that a job over the changed row takes: bring it to Spark, filter, bring the answer back."""
    began_s = time.perf_counter()
    row = (b"4710", b"4711", b"%d.25" % number, b"sent")
    columns = {f"c{at}": arrow_column(type, [text]) for at, (type, text) in enumerate(zip(_TYPES, row, strict=True))}
    bench.spark.small.createDataFrame(pa.table(columns)).where("c1 = 4711").select("c0", "c3", "c2").toArrow()
    return (time.perf_counter() - began_s) * 1000


def _ensure_worker(bench: Bench) -> None:
    """A worker with the settings that users get."""
    if not bench.road.workers:
        bench.road.start_worker(
            master="local[*]", driver_memory="2g", java_options="-XX:+UseSerialGC", recheck_s="60", clock_interval_s="5"
        ).wait_ready()


def _shown(thirds: list[float]) -> str:
    return ", ".join(f"{third * 1000:.0f} ms" for third in thirds)
