"""The commands that the chart's hooks run."""

import secrets

import psycopg

from proto.topics import FLOW
from services.capture.outbound import slot
from services.cli.__main__ import run


def test_topics_makes_what_is_missing_and_may_be_repeated(kafka, capsys):
    prefix = f"chart_{secrets.token_hex(4)}."
    environ = {"TIDEWIRE_KAFKA_BOOTSTRAP": kafka.bootstrap, "TIDEWIRE_KAFKA_TOPIC_PREFIX": prefix}
    wanted = [f"{prefix}{topic.name}: {topic.partitions} partitions" for topic in FLOW]
    for _ in range(2):
        assert run(["topics"], environ) == 0
        assert capsys.readouterr().out.splitlines() == wanted


def test_check_without_a_gateway_says_what_to_set(tmp_path, capsys):
    assert run(["check"], {"TIDEWIRE_DEVSTACK_HOME": str(tmp_path)}) == 2
    assert "GATEWAY_DSN" in capsys.readouterr().err


def test_the_wal_that_a_slot_keeps_grows_with_what_is_written(postgres_server):
    name = f"kept_{secrets.token_hex(4)}"
    dsn = postgres_server.create_database(name)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            assert slot.kept_bytes(connection, name) == 0
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (name,))
            before = slot.kept_bytes(connection, name)
            connection.execute("CREATE TABLE written AS SELECT generate_series(1, 20000) AS number")
            assert slot.kept_bytes(connection, name) > before + 500_000
            connection.execute("SELECT pg_drop_replication_slot(%s)", (name,))
    finally:
        postgres_server.drop_database(name)
