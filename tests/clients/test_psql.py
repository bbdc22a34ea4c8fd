"""psql and the other programs of PostgreSQL itself cannot tell the gateway from the server (issue 5)."""

import re
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest

from services.devstack.postgres import wheel_bin

HERE = Path(__file__).parent
QUIET = ["-X", "-a", "-q"]
WITNESSES = (
    "LOCATION:",
    "notice calm",
    "number 2000",
    'notification "news" with payload "first"',
    "terminating connection due to administrator command",
)


def run(door, folder, command, text=None, environ=None):
    """The exit status and all that a program of PostgreSQL printed; what differs by nature is struck out."""
    done = subprocess.run(
        [str(wheel_bin(18) / command[0]), *command[1:]],
        cwd=folder,
        input=text,
        env={**door.environ, **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    said = re.sub(r"PID \d+", "PID …", done.stdout.replace(f"port {door.port}", "port …"))
    return done.returncode, re.sub(r"lo_import \d+", "lo_import …", said)


@pytest.mark.parametrize("version", [16, 18])
def test_a_session_of_psql_reads_the_same(doors, tmp_path, version):
    psql = str(wheel_bin(version) / "psql")
    status, said = doors.same(lambda door: run(door, tmp_path, [psql, *QUIET, "-f", str(HERE / "psql.sql")]))
    assert status == 2  # the script ends its own session
    for witness in WITNESSES:
        assert witness in said


def test_named_statements_and_pipelines_of_psql(doors, tmp_path):
    status, said = doors.same(lambda door: run(door, tmp_path, ["psql", *QUIET, "-f", str(HERE / "psql_pipeline.sql")]))
    assert status == 0
    assert "42" in said and "duplicate key" in said


def test_the_first_error_ends_a_script_where_that_is_asked(doors, tmp_path):
    script = "SELECT 1;\nSELECT 1/0;\nSELECT 2;\n"
    command = ["psql", *QUIET, "-v", "ON_ERROR_STOP=1"]
    assert doors.same(lambda door: run(door, tmp_path, command, script))[0] == 3
    assert doors.same(lambda door: run(door, tmp_path, [*command, "-1", "-c", "SELECT 1", "-c", "SELECT x"]))[0] == 1


@pytest.mark.parametrize(
    "environ",
    [
        {"PGPASSWORD": "wrong"},
        {"PGDATABASE": "nowhere"},
        {"PGUSER": "nobody_known"},
        {"PGOPTIONS": "-c no_such_setting=1"},
        {"PGCLIENTENCODING": "NO_SUCH_ENCODING"},
    ],
    ids=lambda environ: next(iter(environ)),
)
def test_a_refused_start_reads_the_same(doors, tmp_path, environ):
    status, said = doors.same(lambda door: run(door, tmp_path, ["psql", "-X", "-c", "SELECT 1"], environ=environ))
    assert status == 2
    assert "FATAL" in said


def test_settings_of_the_start_reach_the_server(doors, tmp_path):
    environ = {
        "PGOPTIONS": "-c statement_timeout=12345 -c tidewire_test.word=a\\ b",
        "PGAPPNAME": "named by the client",
        "PGTZ": "Asia/Tokyo",
        "PGDATESTYLE": "SQL, DMY",
        "PGCLIENTENCODING": "LATIN1",
    }
    script = (
        "SHOW statement_timeout; SHOW tidewire_test.word; SHOW application_name; SHOW TimeZone; SHOW DateStyle;"
        "SHOW client_encoding; SELECT timestamptz '2026-11-17 12:00Z';"
    )
    status, said = doors.same(lambda door: run(door, tmp_path, ["psql", "-X", "-At"], script, environ))
    assert status == 0
    assert said.splitlines() == [
        "12345ms",
        "a b",
        "named by the client",
        "Asia/Tokyo",
        "SQL, DMY",
        "LATIN1",
        "17/11/2026 21:00:00 JST",
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pg_sleep(60) -- interrupted",
        "SELECT count(*) FROM generate_series(1, 1000000000) interrupted",
        "COPY (SELECT g, 'interrupted' FROM generate_series(1, 1000000000) g) TO STDOUT",
    ],
    ids=["asleep", "busy", "copy_out"],
)
def test_control_c_cancels_the_statement_and_keeps_the_session(doors, tmp_path, statement):
    def interrupted(door):
        script = f"BEGIN;\nSELECT 1 AS before;\n{statement};\nROLLBACK;\nSELECT 2 AS after;\n"
        with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
            psql = subprocess.Popen(
                [str(wheel_bin(18) / "psql"), "-X", "-q", "-o", "answers"],
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                env=door.environ,
                text=True,
            )
            with psql:
                psql.stdin.write(script)
                psql.stdin.flush()
                doors.wait_until_runs("interrupted")
                psql.send_signal(signal.SIGINT)
                psql.stdin.close()
                status = psql.wait(60)
        lines = (tmp_path / "answers").read_text().splitlines()
        return status, (tmp_path / "err").read_text(), [line for line in lines if not re.match(r"\d+\t", line)]

    _, said, _ = doors.same(interrupted)
    assert "canceling statement due to user request" in said


def test_pg_dump_and_pg_restore(doors, tmp_path):
    def dumped(door):
        with psycopg.connect(door.dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE parent (id int PRIMARY KEY, body text)")
            connection.execute("INSERT INTO parent SELECT g, repeat(md5(g::text), 50) FROM generate_series(1, 5000) g")
            connection.execute("CREATE TABLE child (id int REFERENCES parent, made timestamptz DEFAULT 'epoch')")
            connection.execute("INSERT INTO child SELECT g FROM generate_series(1, 3000) g")
            connection.execute("SELECT lo_from_bytea(424242, repeat('lob', 100000)::bytea)")
        folder = tmp_path / door.name
        plain = run(door, tmp_path, ["pg_dump", "--restrict-key=tidewire", "-Fp", "--inserts", "-t", "child"])
        several = run(door, tmp_path, ["pg_dump", "-Fd", "-j2", "-Z0", "-f", str(folder)])
        with psycopg.connect(door.dsn, autocommit=True) as connection:
            connection.execute("DROP TABLE child, parent; SELECT lo_unlink(424242)")
        restored = run(door, tmp_path, ["pg_restore", "-d", door.database, "-j2", str(folder)])
        whole = run(door, tmp_path, ["pg_dump", "--restrict-key=tidewire"])
        return plain, several, restored, whole

    plain, several, restored, whole = doors.same(dumped)
    assert plain[0] == several[0] == restored[0] == whole[0] == 0
    assert "INSERT INTO public.child" in plain[1]
    assert "COPY public.parent" in whole[1]


@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
def test_pgbench(doors, tmp_path, mode):
    (tmp_path / "pipelined.sql").write_text(
        "\\set a random(1, 100000)\n\\startpipeline\nSELECT abalance FROM pgbench_accounts WHERE aid = :a;\n"
        "SELECT 1;\n\\endpipeline\n"
    )

    def counted(door):
        said = run(door, tmp_path, ["pgbench", "-i", "-s1", "-q"])
        assert said[0] == 0, said
        script = [] if mode == "simple" else ["-f", "pipelined.sql"]
        load = ["pgbench", "-n", "-M", mode, "-c4", "-j2", "-t100", "-b", "tpcb-like", *script, door.database]
        status, report = run(door, tmp_path, load)
        with psycopg.connect(door.dsn) as connection:
            agree = connection.execute(
                "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)"
            ).fetchone()
        return status, re.search(r"number of transactions actually processed: (.*)", report)[1], agree

    assert doors.same(counted) == (0, "400/400", (True,))
