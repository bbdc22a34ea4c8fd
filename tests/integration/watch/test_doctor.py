"""`tidewire doctor` tells a database that can be watched from one that cannot, and what to do."""

import json

import psycopg
import pytest
from psycopg import conninfo

from services.capture.outbound import watch
from services.cli import doctor, uninstall
from services.cli.doctor_tables import update_cost
from tests.fixtures.postgres import start_postgres


def dsn_of(connection: psycopg.Connection, **changes: str) -> str:
    return conninfo.make_conninfo(connection.info.dsn, **{"password": connection.info.password, **changes})


def examine(capsys: pytest.CaptureFixture[str], dsn: str) -> tuple[int, dict[str, str], dict[str, dict]]:
    """Exit code, remedies of what must be fixed by subject, findings by table."""
    code = doctor.run(dsn, as_json=True)
    report = json.loads(capsys.readouterr().out)
    musts = {finding["subject"]: finding["remedy"] for finding in report["findings"] if finding["level"] == "must"}
    return code, musts, {table["table"]: table for table in report["tables"]}


@pytest.mark.parametrize("installed", [True, False])
def test_a_good_database_has_nothing_to_fix_and_its_costs_are_shown(server, plain, capsys, installed):
    plain.execute("create table keyed (a int primary key)")
    plain.execute("create table narrow as select generate_series(1, 1000) as a")
    plain.execute("create table wide as select repeat(md5(g::text), 30) as a from generate_series(1, 1000) g")
    plain.execute("create table empty (a int)")
    plain.execute("create unlogged table unlogged (a int)")
    plain.execute("create table shunned (a int)")
    plain.execute("alter table shunned replica identity nothing")
    plain.execute("analyze narrow, wide")
    if installed:
        watch.install(plain)
    code, musts, tables = examine(capsys, dsn_of(plain))
    found = {
        name.removeprefix("public."): (table["level"], table["cost"], table["found"]) for name, table in tables.items()
    }
    whole = "no key: old rows are written whole"
    assert (code, musts) == (0, {})
    assert found == {
        "keyed": ("ok", "", ""),
        "narrow": ("note", "≈ 1.02 × WAL for an UPDATE (4 B a row)", whole),
        "wide": ("note", "≈ 1.85 × WAL for an UPDATE (964 B a row)", whole),
        "empty": ("note", "? × WAL for an UPDATE", whole),
        "unlogged": ("note", "", "unlogged: not in the WAL"),
        "shunned": ("note", "", "not tracked"),
    }


def test_a_value_out_of_line_is_what_full_identity_costs_most():
    assert [round(update_cost(row, toast), 1) for row, toast in ((40, 0), (1000, 0), (60, 100_000))] == [
        1.2,
        1.9,
        436.0,
    ]


def test_a_table_without_key_but_with_a_generated_column_is_told_to_get_a_key(server, watched, capsys):
    # Virtual columns came with PostgreSQL 18; rows with them cannot be identified whole.
    kind, identity = ("virtual", "none") if server.version >= 18 else ("stored", "full")
    watched.execute(f"create table t (a int, b int generated always as (a + 1) {kind})")
    watched.execute("insert into t values (1)")
    watched.execute("analyze t")
    table = examine(capsys, dsn_of(watched))[2]["public.t"]
    assert (table["identity"], table["remedy"]) == (identity, "ALTER TABLE public.t ADD PRIMARY KEY (…)")


def test_a_wrong_wal_level_must_be_fixed(tmp_path, capsys):
    with start_postgres(tmp_path, settings={"wal_level": "replica"}) as server:
        code, musts, _ = examine(capsys, server.dsn)
    assert (code, musts) == (1, {"wal_level": "ALTER SYSTEM SET wal_level = 'logical'; then restart PostgreSQL"})


def test_a_role_without_privileges_is_told_what_to_grant(plain, capsys):
    role = f"role_{plain.info.dbname}"
    plain.execute(f"create role {role} login password 'x'")
    plain.execute("create table t (a int primary key)")
    code, musts, tables = examine(capsys, dsn_of(plain, user=role, password="x"))
    plain.execute(f"drop role {role}")
    assert (code, list(musts), tables["public.t"]["found"]) == (1, [f"role {role}"], "owned by another role")


def test_a_slot_that_nobody_reads_is_shown_with_what_it_keeps(watched, capsys):
    slot = f"slot_{watched.info.dbname}"
    watched.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
    code = doctor.run(dsn_of(watched), as_json=False)
    text = " ".join(capsys.readouterr().out.split())
    assert (code, slot in text, "not active" in text) == (0, True, True)


def test_half_an_installation_must_be_mended(watched, capsys):
    watched.execute("drop publication tidewire_03")
    assert examine(capsys, dsn_of(watched))[:2] == (
        1,
        {"installation": "restart capture, which mends it, or run `tidewire uninstall`"},
    )


def test_uninstall_says_what_it_did(watched, capsys):
    watched.execute("create table keyless (a int)")
    codes = uninstall.run(dsn_of(watched), "none"), uninstall.run(dsn_of(watched), "none")
    text = capsys.readouterr().out
    assert (codes, "public.keyless" in text, "Nothing of Tidewire" in text) == ((0, 0), True, True)
