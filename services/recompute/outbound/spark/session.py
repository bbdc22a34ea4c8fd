"""The Spark session: how it is started, and the two ways in which it runs jobs."""

import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from services.recompute.outbound.spark.operator_classes import class_folder

# Classes of Spark as the JVM has them in memory, written by services/recompute/tools/archive.py for these jars and
# this JVM; another JVM takes no notice of it.
ARCHIVE = Path(pyspark.__file__).parent / "tidewire.jsa"

_LOG4J = r"""
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = lines
appender.lines.type = Console
appender.lines.name = lines
appender.lines.target = SYSTEM_ERR
appender.lines.layout.type = PatternLayout
appender.lines.layout.pattern = {"service":"recompute","event":"spark_logged","level":"%p","logger":"%c{1}","message":"%enc{%m}{JSON}","error":"%enc{%ex}{JSON}","time":"%d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC}"}%n
appender.lines.layout.alwaysWriteExceptions = false
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
# A failing task is an answer here: its reason comes back with the job.
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
# What we set on purpose.
logger.texts.name = org.apache.spark.sql.catalyst.util.StringUtils
logger.texts.level = error
logger.pools.name = org.apache.spark.scheduler.FairSchedulableBuilder
logger.pools.level = error
# Windows over a whole result are what the query says.
logger.window.name = org.apache.spark.sql.execution.window.WindowExec
logger.window.level = error
# Plans are long; that their text was cut is no news.
logger.strings.name = org.apache.spark.sql.catalyst.util
logger.strings.level = error
logger.utils.name = org.apache.spark.util
logger.utils.level = error
"""  # noqa: E501

_SETTINGS = {
    # Overflow and division by zero must fail, as they do in PostgreSQL.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "2",
    # Replanning between stages costs a small job more than it gains; the sizes of cached tables are known anyway.
    "spark.sql.adaptive.enabled": "false",
    # A ${…} in a text must stay what it is.
    "spark.sql.variable.substitute": "false",
    "spark.driver.maxResultSize": "512m",
    # By default every operator of every task asks for pages of up to 64 MB: twenty queries over 3,827 rows held 1.1 GB
    # and spent a minute in full collections. Of small pages a large operator just takes more.
    "spark.buffer.pageSize": "1m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.task.maxFailures": "1",
    # A tick does not wait behind a load. No task is stopped for it, though: those that copy, compact and read back a
    # table have parts that take a fraction of a second.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.files.maxPartitionBytes": "2m",
    "spark.sql.files.openCostInBytes": "1k",
    # Nobody reads the text of a plan, and that of a hundred templates is long.
    "spark.sql.maxPlanStringLength": "1000",
}
# Generating and compiling Java for a job over a few thousand rows takes longer than interpreting it.
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class Spark:
    """One long-lived session; it is started and warmed up when this is built.

    `session` holds the tables' views and compiles its jobs; `small` has the same settings and executors, no views, and
    interprets its jobs; `slow` is for templates whose cost is not known or not small, and takes half of the slots.
    """

    def __init__(self, *, master: str, driver_memory: str, java_options: str, incremental: bool = False) -> None:
        self._is_stopping, self._is_local = False, master.startswith("local")
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Python tasks run where the image puts Python, here and on executors.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        self.folder = folder = Path(mkdtemp(prefix="tidewire-spark-"))
        (folder / "log4j2.properties").write_text(_LOG4J)
        # A JVM without memory does not come back: its end is noticed, and the worker starts again.
        # And one without room for compiled code ends too: each template brings code of its own, and 48 MB, which a JVM
        # with one compiler has, were full after some hundred queries.
        java_options = f"-XX:+ExitOnOutOfMemoryError -XX:ReservedCodeCacheSize=256m {java_options}"
        options = f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties {_archive(java_options)} {java_options}"
        # Libraries that are unpacked to be loaded stay out of /tmp, where others might find them.
        options += f" -Djava.io.tmpdir={folder}"
        settings = _SETTINGS | {
            "spark.driver.memory": driver_memory,
            "spark.driver.extraJavaOptions": options,
            "spark.local.dir": str(folder),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        if incremental:
            settings["spark.driver.extraClassPath"] = str(class_folder())
        if master == "local[*]" and os.cpu_count() == 1:
            master = "local[2]"  # one slot for what may take long, and one for the others
        builder = SparkSession.builder.appName("tidewire recompute").master(master)
        for name, value in settings.items():
            builder = builder.config(name, value)
        # Logs each failure of a query with its whole stack; the failure comes back to us anyway.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        self.session: SparkSession = builder.getOrCreate()
        self.small: SparkSession = self.session.newSession()
        for name, value in _INTERPRETED.items():
            self.small.conf.set(name, value)
        # Spark takes no slot back from a task: what may take long must leave some to the others.
        self.slow_width = max(1, self.session.sparkContext.defaultParallelism // 2)
        self.slow: SparkSession = self.session.newSession()
        self.slow.conf.set("spark.sql.shuffle.partitions", str(self.slow_width))
        self.slow.conf.set("spark.sql.leafNodeDefaultParallelism", str(self.slow_width))
        self._warm_up()

    @property
    def is_lost(self) -> bool:
        """Whether no job can run any more."""
        try:
            return bool(self.session.sparkContext._jsc.sc().isStopped())
        except (Py4JError, OSError):
            return True

    def cpu_s(self) -> float | None:
        """The processor's time that the JVM has had; None where its tasks run elsewhere, or nobody tells."""
        process: Any = getattr(self.session.sparkContext._gateway, "proc", None)
        if process is None or not self._is_local:
            return None
        try:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def on_jvm_end(self, call: Callable[[str], None]) -> None:
        """Call back from a thread as soon as the JVM has ended without being told to."""
        process: Any = getattr(self.session.sparkContext._gateway, "proc", None)

        def wait() -> None:
            code = process.wait()
            if not self._is_stopping:
                call(f"the JVM of Spark ended with {code}")

        if process is not None:
            threading.Thread(target=wait, name="jvm", daemon=True).start()

    def stop(self) -> None:
        self._is_stopping = True
        self.session.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _warm_up(self) -> None:
        """The first jobs load most of Spark's classes: better now than under the first subscriber."""
        rows = pa.table({"c0": pa.array([1, 2], pa.int32()), "c1": pa.array(["a", "b"])})
        self.small.createDataFrame(rows).selectExpr("array_compact(array(CASE WHEN c0 = 1 THEN c1 END)) AS m").toArrow()
        frame = self.session.createDataFrame(rows)
        groups = frame.join(frame.withColumnRenamed("c1", "d1"), "c0").groupBy("d1").agg(F.count("c1"), F.sum("c0"))
        groups.selectExpr("array(d1, CAST(`sum(c0)` AS STRING)) AS r").union(frame.selectExpr("array(c1)")).toArrow()


def collected(frame: DataFrame) -> pa.Table:
    """The frame's rows. It is optimised in the caller's own JVM thread: that is where a deadline can stop it."""
    frame._jdf.queryExecution().executedPlan()
    return frame.toArrow()


def _archive(java_options: str) -> str:
    if "Archive" in java_options or not ARCHIVE.exists():
        return ""
    return f"-XX:SharedArchiveFile={ARCHIVE} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
