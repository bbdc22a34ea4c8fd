"""`tidewire topic ls|tail|reset` beside a gateway."""

import json
import subprocess
import sys

import pytest

from tests.integration.topics.conftest import Consumer, WrittenTopic


@pytest.fixture
def tidewire(stack):
    """Runs the command line as an operator would; `caller` is whose token it has."""

    def run(*arguments: str, caller=None) -> subprocess.CompletedProcess[str]:
        headers = (caller or stack.dba()).headers
        return subprocess.run(
            [sys.executable, "-m", "services.cli", "topic", *arguments],
            env={
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": ":".join(sys.path),
                "TIDEWIRE_DEVSTACK_HOME": "/nowhere",
                "GATEWAY_DSN": stack.captured.dsn,
                "GATEWAY_URL": f"http://127.0.0.1:{stack.doors[0]}",
                "GATEWAY_TOKEN": headers["Authorization"].removeprefix("Bearer "),
            },
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


def test_ls_shows_sources_ends_and_how_far_groups_are_behind(tidewire, stack, consumer, topic) -> None:
    topic.write(5)
    route = {
        "do": "ALTER TOPIC",
        "action": "add source",
        "topic": topic.name,
        "source_schema": "app",
        "source_table": "orders",
        "op": "Insert",
        "payload_mode": "Key",
        "filter_expr": "(id > 3)",
        "at": {},
    }
    kept = {"action": "set retention", "retention_seconds": 60, "retention_max_bytes": 1000}
    for asked in (route, {"do": "ALTER TOPIC", "topic": topic.name, "at": {}, **kept}):
        stack.sql("CALL _tidewire_topics.statement(%s)", json.dumps(asked))
    consumer.offsets()
    consumer.ack(1)
    done = tidewire("ls")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    at = lines.index(f"{topic.name}: next offset 5; kept for 60 s, up to 1000 bytes")
    assert lines[at + 1 : at + 3] == [
        "  from app.orders on insert, key where (id > 3)",
        f"  group {consumer.group}: partition 0 acked 1, 3 behind",
    ]
    found = [json.loads(line) for line in tidewire("ls", "--json").stdout.splitlines()]
    (mine,) = [each for each in found if each["name"] == topic.name]
    assert mine["next_offsets"] == [5]
    assert mine["groups"] == [{"group_id": consumer.group, "partition_id": 0, "acked": 1, "behind": 3}]


def test_tail_prints_messages_and_acks_them_for_a_group_alone(tidewire, stack, consumer, topic) -> None:
    topic.write(3)
    done = tidewire("tail", topic.name, "--from", "1", "--messages", "2")
    assert (done.returncode, done.stdout) == (0, '1 Insert app.orders {"id": 1}\n2 Insert app.orders {"id": 2}\n')
    done = tidewire("tail", topic.name, "--from", "earliest", "--group", consumer.group, "--messages", "2", "--json")
    assert [json.loads(line)["offset"] for line in done.stdout.splitlines()] == [0, 1], done.stderr
    question = "SELECT group_id, last_acked_offset FROM system.topic_offsets WHERE topic_id = %s"
    assert stack.sql(question, topic.name) == [(consumer.group, 1)]


def test_reset_moves_a_group_of_one_partition_or_of_all(tidewire, stack) -> None:
    topic = WrittenTopic(stack, partitions=2)
    topic.write(3)
    topic.write(2, partition=1)
    group = 'it\'s "one"; DROP TABLE app.orders'
    done = tidewire("reset", topic.name, group, "--to", "latest")
    assert done.stdout.splitlines() == [
        f"group {group} of {topic.name}, partition 0: next offset 3",
        f"group {group} of {topic.name}, partition 1: next offset 2",
    ], done.stderr
    consumer = Consumer(topic, stack.service(), group)
    assert consumer.offsets() == consumer.offsets(partition_id=1) == []
    assert tidewire("reset", topic.name, group, "--to", "earliest").returncode == 0
    assert tidewire("reset", topic.name, group, "--to", "1", "--partition", "1").returncode == 0
    assert consumer.offsets() == [0, 1, 2] and consumer.offsets(partition_id=1) == [1]


def test_refusals_are_one_sentence(tidewire, stack, topic) -> None:
    done = tidewire("reset", topic.name, "g", "--to", "0", caller=stack.service())
    assert (done.returncode, done.stderr) == (1, "tidewire: RESET CONSUMER GROUP requires DBA or System role\n")
    for arguments in (("tail", "app.nope"), ("reset", "app.nope", "g", "--to", "latest")):
        done = tidewire(*arguments)
        assert (done.returncode, done.stderr) == (1, "tidewire: Topic 'app.nope' does not exist\n")
    assert tidewire("reset", topic.name, "g", "--to", "soon").returncode == 2
