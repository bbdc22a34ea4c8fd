"""The servers that tests are given are real, separate, and come back after a crash."""

import psycopg
import pytest
import redis
from confluent_kafka.admin import AdminClient, NewTopic

from tests.fixtures.postgres import VERSIONS, start_postgres


def test_a_database_takes_logical_replication(database):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SELECT pg_create_logical_replication_slot(current_database()::text, 'pgoutput')")
        assert connection.execute("SHOW wal_level").fetchone() == ("logical",)


def test_the_broker_keeps_topics_over_a_crash(kafka, topic_prefix):
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    name = f"{topic_prefix}changes"
    client.create_topics([NewTopic(name, 1, 1)])[name].result(timeout=10)
    kafka.kill()
    kafka.restart()
    assert name in AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10).topics


def test_redis_keeps_what_it_acknowledged_over_a_crash(redis_server):
    redis.Redis.from_url(redis_server.url).set("cursor", "7")
    redis_server.kill()
    redis_server.restart()
    assert redis.Redis.from_url(redis_server.url).get("cursor") == b"7"


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version_starts_with_settings_of_its_own(version, tmp_path):
    with start_postgres(tmp_path, version, settings={"wal_level": "replica"}) as server:
        with psycopg.connect(server.dsn) as connection:
            answer = connection.execute("SELECT current_setting('wal_level'), current_setting('server_version_num')")
            level, number = answer.fetchone()
        assert (level, int(number) // 10000) == ("replica", version)
