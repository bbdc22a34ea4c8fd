"""The seven boxes of the original document's validation checklist (K29): SQL by the PG port, the routes' own worker,
consumers by HTTP, and retention, all real."""

import base64
import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import structlog
from prometheus_client import CollectorRegistry
from psycopg.conninfo import make_conninfo

from services.chassis.redis import Redis, connect_sync
from services.retention.flow.run import RetentionRun
from services.retention.metrics import Metrics
from services.retention.outbound.horizons import Horizons
from services.retention.settings import Retention
from tests.e2e.recompute.worker import WorkerProcess
from tests.fixtures.cdc import CdcStack
from tests.fixtures.sealing import SEALED
from tests.fixtures.waiting import wait_until
from tests.integration.topics.conftest import Consumer, NamedTopic


@pytest.fixture(scope="module")
def routes(stack: CdcStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerProcess]:
    """The worker that turns committed changes into messages."""
    environ = {
        "TIDEWIRE_POSTGRES_DSN": stack.captured.dsn,
        "TIDEWIRE_KAFKA_BOOTSTRAP": stack.captured.kafka.bootstrap,
        "TIDEWIRE_KAFKA_TOPIC_PREFIX": stack.captured.kafka.topic_prefix,
        "TIDEWIRE_RECOMPUTE_RECHECK_S": "1",
        **SEALED,
    }
    log = tmp_path_factory.mktemp("routes") / "routes.log"
    worker = WorkerProcess(environ, log, "services.recompute.tools.routes").wait_ready()
    yield worker
    worker.end()


@pytest.fixture
def client(stack: CdcStack) -> Iterator[psycopg.Connection[Any]]:
    """A client of the gateway's PG port."""
    dsn = make_conninfo(
        stack.captured.dsn, host="127.0.0.1", port=stack.gateways[0].port, sslmode="disable", gssencmode="disable"
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def routed(client: psycopg.Connection[Any], routes: WorkerProcess, stack: CdcStack) -> NamedTopic:
    """A topic whose source is a table of the test's own."""
    table = f"app.s_{secrets.token_hex(4)}"
    name = f"app.c_{secrets.token_hex(4)}"
    client.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, note text)".encode())
    client.execute(f"CREATE TOPIC {name}".encode())
    client.execute(f"ALTER TOPIC {name} ADD SOURCE {table} ON INSERT".encode())
    return NamedTopic(name, table)


def insert(client: psycopg.Connection[Any], topic: NamedTopic, *numbers: int) -> None:
    for number in numbers:
        client.execute(f"INSERT INTO {topic.table} VALUES ({number}, 'x')".encode())


def shown(client: psycopg.Connection[Any], topic: NamedTopic) -> tuple[Any, ...] | None:
    found = client.execute(
        "SELECT topic_id, name, alias, partitions, retention_seconds, retention_max_bytes, routes "
        "FROM system.topics WHERE name = %s",
        [topic.name],
    )
    return found.fetchone()


def test_system_tables_exist_and_are_queryable(client: psycopg.Connection[Any]) -> None:
    """K1, K2, K3: by any SELECT through the gateway."""
    columns = {
        "system.topics": {
            "topic_id",
            "name",
            "alias",
            "partitions",
            "retention_seconds",
            "retention_max_bytes",
            "routes",
        },
        "system.topic_offsets": {"topic_id", "group_id", "partition_id", "last_acked_offset", "updated_at"},
    }
    for table, expected in columns.items():
        found = client.execute(f"SELECT * FROM {table}".encode())
        assert expected <= {column.name for column in found.description or ()}
    joined = "SELECT count(*) FROM system.topics JOIN system.topic_offsets USING (topic_id) WHERE group_id = 'nobody'"
    assert client.execute(joined.encode()).fetchone() == (0,)


def test_create_topic_persists_metadata(client: psycopg.Connection[Any], stack: CdcStack) -> None:
    """K7, K28; vector k.create.rules: what is not said is one partition, 7 days, 1 GiB; any connection sees it."""
    name = f"app.c_{secrets.token_hex(4)}"
    client.execute(f"CREATE TOPIC {name}".encode())
    expected = (name, name, None, 1, 604_800, 1_073_741_824, "[]")
    assert shown(client, NamedTopic(name, "")) == expected
    seen = stack.sql("SELECT topic_id, name, partitions FROM _tidewire.topics WHERE name = %s", name)
    assert seen == [(name, name, 1)]
    with pytest.raises(psycopg.Error, match=f"Topic '{name}' already exists"):
        client.execute(f"CREATE TOPIC {name}".encode())


def test_alter_topic_add_source_creates_route(client: psycopg.Connection[Any], routed: NamedTopic) -> None:
    """K8, K9: the payload that is not said is Key."""
    row = shown(client, routed)
    assert row is not None
    assert json.loads(row[6]) == [
        {
            "table_id": routed.table,
            "op": "Insert",
            "payload_mode": "Key",
            "filter_expr": None,
            "partition_key_expr": None,
        }
    ]


def test_change_events_append_to_topic_logs(
    client: psycopg.Connection[Any], routed: NamedTopic, stack: CdcStack
) -> None:
    """K4, K5, K6, K9, K27; vector k.firstoffset: offsets from 0 without gaps, in commit order, the key alone."""
    insert(client, routed, 7, 3, 5)
    reader = Consumer(routed, stack.service())
    wait_until(lambda: len(reader.offsets(group_id=None)) == 3, "the messages", within_s=60)
    messages = reader.consume(group_id=None)["messages"]
    assert [each["offset"] for each in messages] == [0, 1, 2]
    assert [json.loads(base64.b64decode(each["payload"])) for each in messages] == [{"id": 7}, {"id": 3}, {"id": 5}]
    assert {(each["source_table"], each["op"], each["payload_mode"]) for each in messages} == {
        (routed.table, "Insert", "Key")
    }


def test_consume_supports_earliest_latest_and_offset(
    client: psycopg.Connection[Any], routed: NamedTopic, stack: CdcStack
) -> None:
    """K10, K14, K23; vectors k.http.start.latest, k.http.start.earliest, k.consume.alias: by HTTP and by SQL."""
    insert(client, routed, *range(5))
    reader = Consumer(routed, stack.service())
    wait_until(lambda: reader.offsets("Earliest", group_id=None) == [0, 1, 2, 3, 4], "the messages", within_s=60)
    assert reader.offsets("Latest", group_id=None) == []
    assert reader.offsets({"Offset": 3}, group_id=None) == [3, 4]
    client.execute(f"ALTER TOPIC {routed.name} SET ALIAS {routed.name}_alias".encode())
    answers = {"EARLIEST": ["0", "1"], "LATEST": [], "OFFSET 3": ["3", "4"], "4": ["4"]}
    for start, expected in answers.items():
        for name in (routed.name, f"{routed.name}_alias"):
            answer = reader.post("/v1/api/sql", {"sql": f"CONSUME FROM {name} FROM {start} LIMIT 2"})
            assert [row[2] for row in answer.body["results"][0]["rows"]] == expected, answer


def test_ack_updates_offsets_correctly(client: psycopg.Connection[Any], routed: NamedTopic, stack: CdcStack) -> None:
    """K11, K17, K22, K24; vector k.sql.autoack: consuming stores nothing, an ack is inclusive and never falls."""
    insert(client, routed, *range(5))
    reader = Consumer(routed, stack.service())
    wait_until(lambda: len(reader.offsets(group_id=None)) == 5, "the messages", within_s=60)
    assert reader.offsets(limit=3) == [0, 1, 2]
    question = "SELECT partition_id, last_acked_offset, updated_at FROM system.topic_offsets WHERE group_id = %s"
    assert client.execute(question, [reader.group]).fetchall() == []
    reader.ack(2)
    (acked,) = client.execute(question, [reader.group]).fetchall()
    assert acked[:2] == (0, 2)
    reader.ack(1)
    assert client.execute(question, [reader.group]).fetchall() == [acked]
    assert reader.offsets() == [3, 4]


def test_retention_job_prunes_old_log_entries(
    client: psycopg.Connection[Any], routed: NamedTopic, stack: CdcStack, redis_server
) -> None:
    """K28: what is too old is gone for every reader, who is told so; what comes then is kept."""
    insert(client, routed, 1, 2)
    reader = Consumer(routed, stack.service())
    wait_until(lambda: len(reader.offsets(group_id=None)) == 2, "the messages", within_s=60)
    client.execute(f"ALTER TOPIC {routed.name} SET RETENTION WITH (retention_seconds = 3600)".encode())
    insert(client, routed, 3)
    wait_until(lambda: len(reader.offsets(group_id=None)) == 3, "a message under the new limit", within_s=60)
    _retention(stack, redis_server.url, ahead_s=7_200).run()
    # The door looks at the horizon at every call.
    answer = reader.consume({"Offset": 0}, group_id=None)
    assert (answer["messages"], answer["trimmed"], answer["next_offset"]) == ([], True, 3)
    insert(client, routed, 4)
    wait_until(lambda: reader.offsets("Earliest", group_id=None) == [3], "what came after", within_s=60)


def _retention(stack: CdcStack, redis_url: str, *, ahead_s: int) -> RetentionRun:
    """Retention as its service runs it, with a clock that is ahead."""
    kafka = stack.captured.kafka
    return RetentionRun(
        kafka,
        Horizons(connect_sync(Redis(url=redis_url)), kafka),
        Retention(),
        metrics=Metrics(CollectorRegistry()),
        log=structlog.get_logger(),
        clock_us=lambda: (time.time_ns() // 1000) + ahead_s * 1_000_000,
    )
