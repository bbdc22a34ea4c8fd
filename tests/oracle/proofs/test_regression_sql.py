"""Every stand-alone SELECT of PostgreSQL's own regression files, where Spark computes it, has PostgreSQL's answer."""

import os
import secrets
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.devstack.postgres import wheel_bin
from services.recompute.outbound.spark.deadlines import Deadlines
from tests.clients.regression import FLAGS, SESSION, regression_files, schedule
from tests.oracle.campaign import TIMEOUT_S
from tests.oracle.case import Place
from tests.oracle.local import Local
from tests.oracle.places import create
from tests.oracle.regression_sql import Report, Session

pytestmark = [pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(TIMEOUT_S)]
IS_LONG = "ORACLE_EXAMPLES" in os.environ
# In `make test`.
SHORT = ("boolean", "int4", "text", "case", "select_having", "union")
# They change roles, tablespaces or the server, or wait for others.
LEFT_OUT = {
    *(
        "tablespace",
        "vacuum",
        "vacuum_parallel",
        "stats",
        "reloptions",
        "subscription",
        "publication",
        "prepared_xacts",
    ),
    *("psql", "psql_crosstab", "create_index", "brin", "gin", "gist", "spgist", "hash_index", "btree_index"),
    *("largeobject", "compression", "stats_ext"),
}
JOB_S = 20.0


@pytest.fixture
def dsn(postgres_server) -> Iterator[str]:
    name = f"regression_{secrets.token_hex(4)}"
    yield create(postgres_server, Place(18, "C"), name)
    postgres_server.drop_database(name)


def names(files: Path) -> list[str]:
    if not IS_LONG:
        return list(SHORT)
    chosen = os.environ.get("ORACLE_FILES", "")
    listed = [name for name in schedule(files) if name not in LEFT_OUT and name != "test_setup"]
    return [name for name in listed if not chosen or name in chosen.split(",")]


def test_spark_answers_postgres_s_own_selects_as_postgres_does(spark, dsn, tmp_path):
    files = regression_files()
    set_up(dsn, files, tmp_path)
    deadlines = Deadlines(spark, on_stuck=lambda reason: None)
    report = Report([], Counter(), Counter())
    for name in names(files):
        local = Local(spark, dsn, limit=lambda: deadlines.within(JOB_S))
        session = Session(local, dsn, report)
        session.run(files / "sql" / f"{name}.sql")
        session.close()
    share = 100 * report.on_spark / max(1, report.asked)
    print(f"{report.asked} SELECTs, {report.on_spark} on Spark ({share:.1f} %), {dict(report.strategies)}")
    if IS_LONG:
        print("\n".join(f"{count:5} {reason}" for reason, count in report.reasons.most_common(40)))
    assert report.wrong == [], f"{len(report.wrong)} wrong:\n" + "\n".join(report.wrong)
    assert report.on_spark > 30


def set_up(dsn: str, files: Path, folder: Path) -> None:
    """The tables of all files; psql runs this one, since it copies from files by variables."""
    (folder / "results").mkdir()
    environ = {
        **SESSION,
        "PG_ABS_SRCDIR": str(files),
        "PG_ABS_BUILDDIR": str(folder),
        "PG_LIBDIR": "",
        "PG_DLSUFFIX": "",
    }
    with (files / "sql" / "test_setup.sql").open() as script:
        subprocess.run(
            [str(wheel_bin(18) / "psql"), *FLAGS, dsn],
            cwd=folder,
            env=environ,
            stdin=script,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
