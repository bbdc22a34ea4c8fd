"""`python -m services.recompute.tools.archive`: keeps Spark's classes mapped, for a start in half the time."""

import os
from pathlib import Path

from services.recompute.outbound.spark.session import ARCHIVE, Spark
from services.recompute.settings import Recompute

JVM_END_S = 300.0


def main() -> None:
    own = Recompute()
    written = Path(f"{ARCHIVE}.{os.getpid()}")
    spark = Spark(
        master="local[1]",
        driver_memory=own.driver_memory,
        java_options=f"{own.java_options} -XX:ArchiveClassesAtExit={written} -Xlog:disable",
    )
    # The JVM writes the archive when it ends, and it ends with its standard input.
    gateway = spark.session.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.proc
    spark.stop()
    jvm.stdin.close()
    jvm.wait(JVM_END_S)
    written.replace(ARCHIVE)


if __name__ == "__main__":
    main()
