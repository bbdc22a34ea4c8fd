"""Without a worker: templates over tables in this process, against one tuple, PostgreSQL, and a table's size there."""

from pathlib import Path

import pyarrow as pa

from benchmarks.recompute.bench import Bench, milliseconds, show
from proto.rows import ResultRow
from services.recompute.core.catalog import Table
from services.recompute.core.job import Failed, Job
from services.recompute.core.storage import arrow_column

FILTER = "SELECT id, status, amount FROM orders WHERE customer = $1"
SPAN = "SELECT id, status, amount FROM orders WHERE amount > $1"
GROUPS = "SELECT status, count(*), sum(amount) FROM orders WHERE customer = $1 GROUP BY status"
JOIN = """SELECT c.region, count(*), sum(o.amount) FROM orders o JOIN customers c ON c.id = o.customer
WHERE o.status <> 'void' GROUP BY c.region"""
MANY = 1000
CHANGES = 100


def tuples(bench: Bench) -> None:
    customers = [(b"%d" % number,) for number in range(1, MANY + 1)]
    # Few rows are so dear: what is measured is the search, not the printing of the same rows for each tuple.
    amounts = [(b"%d.50" % (number + 900),) for number in range(1, MANY + 1)]
    one, many = bench.job(FILTER, customers[0]), bench.job(FILTER, *customers)
    bench.execute(f"UPDATE orders SET status = 'paid' WHERE id BETWEEN 1 AND {CHANGES}")
    assert one.plan.row_local is not None
    oid = one.plan.row_local.table
    bench.until(lambda: bool(bench.tables.changes(oid).rows))
    bare_ms = milliseconds(lambda: _bare(bench, oid), times=30, warm_up=30)
    one_ms, many_ms = _both(bench, one, many, changed=True)
    show(f"{CHANGES} changes, one tuple / bare Spark job", one_ms, bare_ms, most=2)
    show(f"{CHANGES} changes, filter by =, {MANY} tuples / one", many_ms, one_ms, most=2)
    one_ms, many_ms = _both(bench, bench.job(SPAN, amounts[0]), bench.job(SPAN, *amounts), changed=True)
    show(f"{CHANGES} changes, filter by >, {MANY} tuples / one", many_ms, one_ms, most=2)
    one_ms, many_ms = _both(bench, bench.job(GROUPS, customers[0]), bench.job(GROUPS, *customers), changed=False)
    show(f"aggregate over the table, {MANY} tuples / one", many_ms, one_ms, most=2)


def join(bench: Bench) -> None:
    job = bench.job(JOIN)
    bench.execute("SET max_parallel_workers_per_gather = 2")
    reference_ms = milliseconds(lambda: bench.execute(JOIN), times=15, warm_up=5)
    show("join + aggregate over orders / PostgreSQL", _whole(bench, job), reference_ms, most=3)
    bench.execute("UPDATE orders SET amount = amount + 1 WHERE id BETWEEN 1 AND 1000")
    oid = next(read.table for read in job.plan.reads if bench.tables.table(read.table).name == "orders")
    bench.until(lambda: bool(bench.tables.changes(oid).rows))
    show("the same with 1,000 changed rows on top", _whole(bench, job), reference_ms, most=3)


def memory(bench: Bench) -> None:
    context = bench.spark.session.sparkContext._jsc.sc()
    before = _pss(), sum(info.memSize() for info in context.getRDDStorageInfo())
    bench.execute("CREATE TABLE copied (LIKE orders INCLUDING ALL)")
    bench.execute("INSERT INTO copied SELECT * FROM orders")
    bench.job("SELECT id FROM copied WHERE customer = $1", (b"1",))
    after = _pss(), sum(info.memSize() for info in context.getRDDStorageInfo())
    row = bench.connection.execute("SELECT pg_total_relation_size('copied')").fetchone()
    assert row is not None
    python, stored = (now - then for now, then in zip(after, before, strict=True))
    show("memory of a replica / pg_total_relation_size", (python + stored) / 2**20, row[0] / 2**20, most=3, unit="MiB")
    print(f"  of it in Spark's store {stored / 2**20:.1f} MiB, in the driver's Python {python / 2**20:.1f} MiB")


def _both(bench: Bench, one: Job, many: Job, *, changed: bool) -> tuple[float, float]:
    """In turns, so that a busy moment of the machine falls on both."""
    run = bench.evaluation.changed if changed else bench.evaluation.whole
    for job in (one, many):
        (answer,) = run([job])
        assert not isinstance(answer, Failed), answer
    times = [
        (milliseconds(lambda: run([one]), times=3, warm_up=0), milliseconds(lambda: run([many]), times=3, warm_up=0))
        for _ in range(15)
    ]
    settled = times[5:]
    return sorted(a for a, _ in settled)[len(settled) // 2], sorted(b for _, b in settled)[len(settled) // 2]


def _whole(bench: Bench, job: Job) -> float:
    (answer,) = bench.evaluation.whole([job])
    assert not isinstance(answer, Failed), answer
    return milliseconds(lambda: bench.evaluation.whole([job]), times=15, warm_up=10)


def _bare(bench: Bench, oid: int) -> None:
    """The least that a job over the changed rows takes: bring them to Spark, filter, bring the answer back."""
    table = bench.tables.table(oid)
    rows = [row for row, _ in bench.tables.changes(oid).rows]
    frame = bench.spark.small.createDataFrame(pa.table(_columns(table, rows)))
    frame.where("c1 = 1").select("c0", "c3", "c2").toArrow()


def _columns(table: Table, rows: list[ResultRow]) -> dict[str, pa.Array]:
    return {f"c{at}": arrow_column(column.type, [row[at] for row in rows]) for at, column in enumerate(table.columns)}


def _pss() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not say Pss")
