"""Spark on a cluster: a standalone master, a worker and a driver, each a process of its own."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pyspark
import pytest

from services.devstack.ports import free_port
from tests.fixtures.waiting import wait_until

SPARK = Path(pyspark.__file__).parent
WITHIN_S = 120.0


@contextmanager
def spark_process(folder, name, *arguments):
    """A part of a standalone cluster, as the image has it: Spark's jars, Java, Python and this package."""
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if "JAVA_HOME" in os.environ else "java"
    command = [str(java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{SPARK}/jars/*"]
    environ = {**os.environ, "SPARK_HOME": str(SPARK), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [*command, *arguments], cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(WITHIN_S)


def answers(port, process):
    assert process.poll() is None, "the master ended"
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def master_url(tmp_path):
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    network = ("--host", "127.0.0.1", "--webui-port", "0")
    with ExitStack() as stack:
        master = ("org.apache.spark.deploy.master.Master", *network, "--port", str(port))
        process = stack.enter_context(spark_process(tmp_path, "master", *master))
        wait_until(lambda: answers(port, process), "the master answers", WITHIN_S)
        size = ("--cores", "2", "--memory", "1g", "--work-dir", str(tmp_path / "work"))
        worker = ("org.apache.spark.deploy.worker.Worker", *network, *size, url)
        stack.enter_context(spark_process(tmp_path, "worker", *worker))
        yield url


def test_tables_are_copied_and_queries_run_in_executors_of_their_own(master_url, database, tmp_path):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE things (id int PRIMARY KEY, amount int, name text)")
        connection.execute("INSERT INTO things SELECT i, i % 100, 'name ' || i FROM generate_series(1, 20000) i")
        (oid,) = connection.execute("SELECT 'things'::regclass::oid").fetchone()
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(Path.cwd())}
    driver = subprocess.run(
        [sys.executable, "-m", "tests.integration.recompute.cluster_driver", master_url, database, str(oid)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=2 * WITHIN_S,
        check=False,
    )
    assert driver.returncode == 0, driver.stderr[-4000:]
    told = json.loads(driver.stdout.splitlines()[-1])
    assert told.pop("parts") > 1
    assert told == {"rows": 20_000, "executors": 1, "name": "name 4711", "sum": 20_000 // 100 * 4950}
