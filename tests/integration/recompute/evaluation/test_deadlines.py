"""A job that does not heed Spark's cancel is ended all the same, and the next one finds its slots free."""

import threading
import time

import pyarrow as pa
import pytest

from services.recompute.outbound.spark.deadlines import Deadlines, Overdue, throw_in_thread
from services.recompute.outbound.spark.session import collected

LIMIT_S, ENDED_WITHIN_S = 1.0, 6.0
POISONS = {
    "a product of four": "SELECT count(*) FROM poisoned a, poisoned b, poisoned c, poisoned d WHERE a.n + b.n <> c.n",
    "joins by one value": (
        "SELECT count(*) FROM poisoned a JOIN poisoned b ON a.k = b.k JOIN poisoned c ON b.k = c.k "
        "JOIN poisoned d ON c.k = d.k WHERE a.n + b.n + c.n <> d.n"
    ),
    "a pattern, in the optimiser": "SELECT n FROM poisoned WHERE t LIKE '%a%a%a%a%a%a%a%a%b'",
    "a constant, in the optimiser": f"SELECT '{'a' * 80}' LIKE '%a%a%a%a%a%a%a%a%a%b'",
}


@pytest.fixture
def deadlines(spark):
    rows = {"n": pa.array(range(2000), pa.int32()), "k": pa.array([1] * 2000), "t": pa.array(["a" * 80] * 2000)}
    spark.session.createDataFrame(pa.table(rows)).createOrReplaceTempView("poisoned")
    stuck = []
    yield Deadlines(spark, on_stuck=stuck.append)
    assert stuck == []


def tasks(spark):
    threads = spark.session.sparkContext._jvm.java.lang.Thread.getAllStackTraces().keySet()
    return [name for name in (thread.getName() for thread in threads) if "task launch worker for task" in name]


@pytest.mark.parametrize("sql", POISONS.values(), ids=POISONS.keys())
def test_what_spark_cannot_cancel_is_ended(spark, deadlines, sql):
    began_s = time.monotonic()
    with pytest.raises(Overdue), deadlines.within(LIMIT_S):
        collected(spark.session.sql(sql))
    assert time.monotonic() - began_s < ENDED_WITHIN_S
    assert tasks(spark) == []
    with deadlines.within(60.0):
        assert collected(spark.session.sql("SELECT count(*) AS c FROM poisoned"))["c"].to_pylist() == [2000]
    assert not spark.is_lost


def test_work_that_nobody_wants_any_more_is_ended_before_its_time(spark, deadlines):
    timer = threading.Timer(LIMIT_S, deadlines.end)
    timer.start()
    began_s = time.monotonic()
    with pytest.raises(Overdue), deadlines.within(60.0):
        collected(spark.session.sql(POISONS["a product of four"]))
    assert time.monotonic() - began_s < ENDED_WITHIN_S + LIMIT_S
    assert tasks(spark) == []


def test_a_jvm_that_cannot_end_a_thread_is_told_to_be_stuck(spark, deadlines):
    """As one of another version, or without the right to it; the process then ends itself."""
    told, context = [], spark.session.sparkContext

    def refuse(_context, _thread):
        raise RuntimeError("java.lang.NoSuchMethodException: java.lang.Thread.stop0(java.lang.Object)")

    def stuck(reason):
        told.append(reason)
        threads = context._jvm.java.lang.Thread.getAllStackTraces().keySet()
        for thread in [one for one in threads if "task launch worker for task" in one.getName()]:
            throw_in_thread(context, thread)  # for the tests that come

    helpless = Deadlines(spark, on_stuck=stuck, stuck_s=3.0, throw=refuse)
    with pytest.raises(Overdue), helpless.within(LIMIT_S):
        collected(spark.session.sql(POISONS["a product of four"]))
    assert told == ["a job of Spark could not be ended within 3 s"]


def test_an_error_of_the_work_itself_is_its_own(deadlines):
    with pytest.raises(ZeroDivisionError), deadlines.within(60.0):
        raise ZeroDivisionError
