"""Consume and ack over HTTP, by the numbers of the specification and the vectors of upstream."""

import asyncio
import base64
import functools
import json
import operator
import threading
import time

import pytest
import redis
from tidewire.topics import TopicError, Topics

from tests.conformance.kalamdb import topic_vector
from tests.fixtures.cdc import Caller
from tests.fixtures.http_port import ask
from tests.fixtures.waiting import wait_until
from tests.integration.topics.conftest import Consumer, WrittenTopic


def test_k15_the_answer_has_the_names_of_the_document(consumer, topic) -> None:
    """K4, K14, K15; vector k.http.consume.resp."""
    topic.write(3)
    answer = consumer.consume(limit=2)
    assert answer["messages"][0] == {
        "topic_id": topic.name,
        "partition_id": 0,
        "offset": 0,
        "message_id": "0",
        "source_table": "app.orders",
        "op": "Insert",
        "ts": 1_730_000_000_000,
        "payload_mode": "Key",
        "payload": base64.b64encode(b'{"id": 0}').decode(),
        "user": "keeper",
    }
    assert (answer["next_offset"], answer["has_more"], len(answer["messages"])) == (2, True, 2)


def test_decision_23_the_other_path_has_the_names_of_the_code(consumer, topic) -> None:
    """Vector k.http.consume.upstream: both names of a pair would make upstream's clients refuse the batch."""
    topic.write(1)
    body = {
        "topic_id": topic.name,
        "group_id": "g",
        "start": "earliest",
        "limit": 2,
        "partition_id": 0,
        "timeout_seconds": 1,
    }
    answer = consumer.post("/v1/api/topics/consume", body)
    assert set(answer.body["messages"][0]) == {
        "topic_id",
        "partition_id",
        "offset",
        "payload",
        "key",
        "timestamp_ms",
        "user",
        "op",
    }


def test_k17_k22_k24_acks_commit_and_never_fall(stack, consumer, topic) -> None:
    """Vectors k.http.batch, k.http.ack, k.ack.monotonic; K2 in PostgreSQL before the answer."""
    topic.write(80)
    assert consumer.offsets(limit=2) == [0, 1]
    assert consumer.ack(1) == {"success": True, "acknowledged_offset": 1, "committed_offset": 1}
    assert consumer.offsets(limit=10) == list(range(2, 12))
    consumer.ack(39)
    shown = "SELECT last_acked_offset, updated_at FROM system.topic_offsets WHERE topic_id = %s AND group_id = %s"
    before = stack.sql(shown, topic.name, consumer.group)
    assert before[0][0] == 39
    assert consumer.ack(19)["acknowledged_offset"] == 39
    assert stack.sql(shown, topic.name, consumer.group) == before
    assert Consumer(topic, consumer.caller).offsets("Latest") == []


def test_k21_groups_are_independent_and_what_is_not_acked_comes_again(consumer, topic) -> None:
    """Vector k.group.isolated."""
    topic.write(5)
    other = Consumer(topic, consumer.caller)
    assert consumer.offsets() == other.offsets() == [0, 1, 2, 3, 4]
    consumer.ack(4)
    assert consumer.offsets() == []
    wait_until(lambda: other.offsets() == [0, 1, 2, 3, 4], "the messages", within_s=30)


def test_k23_latest_anchors_the_group_where_the_end_was(consumer, topic) -> None:
    """Vector k.latest.new."""
    topic.write(5)
    assert consumer.offsets("Latest") == []
    topic.write(2)
    wait_until(lambda: consumer.offsets("Earliest") == [5, 6], "the messages", within_s=30)
    consumer.ack(6)
    assert consumer.offsets({"Offset": 0}) == []


def test_k23_an_offset_begins_the_group_there(consumer, topic) -> None:
    """Vector k.offset.start; decision 11: the group's own place wins over any later start."""
    topic.write(6)
    assert consumer.offsets({"Offset": 3}, limit=2) == [3, 4]
    assert consumer.offsets("Earliest") == [5]


def test_without_a_group_nothing_is_stored(stack, consumer, topic) -> None:
    """Vector k.nogroup; K27's offsets begin at 0."""
    topic.write(3)
    assert consumer.offsets(group_id=None) == consumer.offsets(group_id=" ") == [0, 1, 2]
    assert consumer.offsets({"Offset": 1}, group_id=None) == [1, 2]
    assert stack.sql("SELECT count(*) FROM system.topic_offsets WHERE topic_id = %s", topic.name) == [(0,)]


def test_decision_12_an_ack_with_a_claim_leaves_a_dead_neighbours_range(consumer, topic) -> None:
    topic.write(10)
    dead, living = consumer.consume(limit=5), consumer.consume(limit=5)
    assert [message["offset"] for message in living["messages"]] == [5, 6, 7, 8, 9]
    assert consumer.ack(9, claim_id=living["claim_id"]) == {
        "success": True,
        "acknowledged_offset": 9,
        "committed_offset": None,
    }
    wait_until(lambda: consumer.offsets() == [0, 1, 2, 3, 4], "the messages", within_s=30)
    assert consumer.ack(4, claim_id=dead["claim_id"])["committed_offset"] == 9


def test_k25_consumers_of_one_group_share_a_backlog_without_overlap(stack, topic) -> None:
    """Vector k.same.group: two gateways' worth of consumers would meet in the same place in Redis."""
    topic.write(4_000)
    first = Consumer(topic, stack.service())
    found: list[list[int]] = [[], [], [], []]

    def work(mine: list[int]) -> None:
        consumer = Consumer(topic, stack.service(), first.group)
        while (batch := consumer.consume(limit=100))["messages"]:
            mine += [message["offset"] for message in batch["messages"]]
            consumer.ack(batch["messages"][-1]["offset"], claim_id=batch["claim_id"])

    threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(functools.reduce(operator.iadd, found, [])) == list(range(4_000))


def test_k16_a_long_poll_is_held_until_a_message_comes(consumer, topic) -> None:
    consumer.consume("Latest")
    began = time.monotonic()
    writer = threading.Timer(1.0, topic.write, (1,))
    writer.start()
    answer = consumer.consume(timeout_seconds=9)
    assert [message["offset"] for message in answer["messages"]] == [0]
    assert 0.9 < time.monotonic() - began < 6
    began = time.monotonic()
    assert consumer.consume(timeout_seconds=2) == {"messages": [], "next_offset": 1, "has_more": False}
    assert 1.5 < time.monotonic() - began < 5


def test_k16_an_answer_without_messages_says_where_it_stands(consumer) -> None:
    assert consumer.consume(timeout_seconds=1) == topic_vector("k.http.consume.empty")["body"]


def test_a_wiped_redis_moves_no_group(stack, consumer, topic, redis_server) -> None:
    topic.write(10)
    consumer.offsets(limit=4)
    consumer.ack(3)
    latest = Consumer(topic, consumer.caller)
    latest.offsets("Latest")
    ours = redis.Redis.from_url(redis_server.url)
    ours.delete(*ours.keys(f"tidewire:{stack.captured.kafka.topic_prefix}topics:*"))
    body = {"topic": topic.name, "group_id": consumer.group, "start": "Latest", "timeout_seconds": 0}
    wait_until(lambda: consumer.post("/api/topics/consume", body).status == 200, "the messages", within_s=30)
    wait_until(lambda: consumer.offsets("Latest") == [4, 5, 6, 7, 8, 9], "the messages", within_s=30)
    topic.write(1)
    wait_until(lambda: latest.offsets("Earliest") == [10], "the messages", within_s=30)


def test_old_messages_are_found_by_our_offset_though_kafkas_has_gaps(consumer, topic) -> None:
    topic.write(30_000, a_transaction=7_000)
    topic.write(50, a_transaction=1)
    assert consumer.offsets({"Offset": 12_345}, limit=3, group_id=None) == [12_345, 12_346, 12_347]
    assert consumer.offsets({"Offset": 30_045}, group_id=None) == [30_045, 30_046, 30_047, 30_048, 30_049]
    assert consumer.offsets(limit=2, group_id=None) == [0, 1]


def test_k28_what_retention_ended_is_told(consumer, topic, stack, redis_server) -> None:
    topic.write(10)
    assert consumer.offsets(limit=2) == [0, 1]
    prefix = stack.captured.kafka.topic_prefix
    redis.Redis.from_url(redis_server.url).set(f"tidewire:{prefix}topics:earliest:{topic.name}:0", "6")
    answer = consumer.consume()
    assert answer["trimmed"] is True and [message["offset"] for message in answer["messages"]] == [6, 7, 8, 9]
    assert "trimmed" not in Consumer(topic, consumer.caller).consume("Latest")


@pytest.mark.parametrize("path", ["consume", "ack"])
def test_k18_k20_errors_have_the_documented_form(stack, consumer, topic, path) -> None:
    """Vector k.http.errors."""
    body = {"topic": topic.name, "group_id": "g", "upto_offset": 0, "timeout_seconds": 0}
    user = Consumer(topic, Caller(stack.doors[0], {"sub": "u", "role": "user"}))
    words = "consumption" if path == "consume" else "acknowledgment"
    refused = user.post(f"/api/topics/{path}", body)
    assert refused.status == 403 and refused.body["code"] == "FORBIDDEN"
    assert refused.body["error"] == f"Topic {words} requires service, dba, or system role"
    missing = consumer.post(f"/api/topics/{path}", {**body, "topic": "missing"})
    assert missing.status == 404 and missing.body["error"] == "Topic 'missing' does not exist"
    assert missing.body["code"] == "NOT_FOUND"
    bad = consumer.post(f"/api/topics/{path}", "{")
    assert bad.status == 422 and bad.body["code"] == "INVALID_REQUEST"
    anonymous = ask(stack.doors[0], f"/api/topics/{path}", method="POST", body=json.dumps(body))
    assert anonymous.status == 401 and anonymous.body["code"] == "UNAUTHORIZED"


@pytest.mark.parametrize("start", ["newest", {"Offset": -1}, {"x": 1}, 5])
def test_k14_bad_starts_are_refused(consumer, topic, start) -> None:
    """Vector k.http.start.variants."""
    answer = consumer.post("/api/topics/consume", {"topic": topic.name, "start": start, "timeout_seconds": 0})
    assert answer.status == 422


def test_the_limit_is_clamped_and_partitions_are_apart(stack, consumer) -> None:
    """Vector k.limit0; KR1."""
    topic = WrittenTopic(stack, partitions=2)
    topic.write(3, partition=1)
    reader = Consumer(topic, consumer.caller)
    assert reader.offsets() == [] and reader.offsets(limit=0, partition_id=1) == [0]
    assert reader.offsets(limit=5_000, partition_id=1) == [1, 2]
    assert reader.post("/api/topics/consume", {"topic": topic.name, "partition_id": 2}).status == 404


def test_latest_offsets(consumer, topic) -> None:
    topic.write(4)
    wait_until(
        lambda: (
            consumer.post(
                "/v1/api/topics/latest-offsets", {"partitions": [{"topic_id": topic.name, "partition_id": 0}]}
            ).body
            == {"offsets": [{"topic_id": topic.name, "partition_id": 0, "next_offset": 4, "last_offset": 3}]}
        ),
        "the offsets behind the messages",
        within_s=30,
    )


def test_k10_k11_topic_sql_over_http_and_reset(stack, consumer, topic) -> None:
    """Vectors k.consume.sqlresult, k.ack.sqlresult; decision 27: RESET CONSUMER GROUP moves a group either way."""
    topic.write(5)

    def sql(text: str, caller: Caller | None = None) -> tuple[int, dict]:
        answer = Consumer(topic, caller or stack.dba()).post("/v1/api/sql", {"sql": text})
        return answer.status, answer.body

    status, body = sql(f"CONSUME FROM {topic.name} GROUP 'g' FROM EARLIEST LIMIT 2")
    result = body["results"][0]
    assert status == 200 and [column["name"] for column in result["schema"]] == [
        "topic_id",
        "partition_id",
        "offset",
        "key",
        "payload",
        "timestamp_ms",
        "user_id",
        "op",
    ]
    assert [row[2] for row in result["rows"]] == ["0", "1"] and result["rows"][0][7] == "insert"
    shown = "SELECT last_acked_offset FROM system.topic_offsets WHERE topic_id = %s AND group_id = 'g'"
    assert stack.sql(shown, topic.name) == []
    _, body = sql(f"ACK {topic.name} GROUP 'g' UPTO OFFSET 3")
    assert body["results"][0]["rows"] == [[topic.name, "g", 0, "3"]]
    assert stack.sql(shown, topic.name) == [(3,)]
    _, body = sql(f"RESET CONSUMER GROUP g ON {topic.name} TO 1")
    assert body["results"][0]["rows"] == [[topic.name, "g", 0, "1"]]
    assert stack.sql(shown, topic.name) == [(0,)]
    _, body = sql(f"CONSUME FROM {topic.name} GROUP 'g' FROM LATEST")
    assert [row[2] for row in body["results"][0]["rows"]] == ["1", "2", "3", "4"]
    sql(f"RESET CONSUMER GROUP g ON {topic.name} PARTITION 0 TO 0")
    assert stack.sql(shown, topic.name) == []
    assert sql(f"RESET CONSUMER GROUP g ON {topic.name} TO 0", stack.service())[0] == 403
    assert sql("CREATE TABLE x ()")[0] == 400 and sql("CONSUME FROM app.missing")[0] == 404


def test_clear_topic_lets_groups_begin_anew(stack, consumer, topic) -> None:
    """K6: offsets are not used again, so the group begins behind what was cleared once the mark is there."""
    topic.write(3)
    consumer.offsets()
    consumer.ack(2)
    stack.sql("CALL _tidewire_topics.statement(%s)", json.dumps({"do": "CLEAR TOPIC", "topic": topic.name, "at": {}}))
    topic.clear()
    topic.write(2)
    wait_until(lambda: consumer.offsets("Earliest") == [3, 4], "the messages behind the mark", within_s=30)
    assert consumer.ack(3)["committed_offset"] == 3


def test_the_python_client_consumes_and_acks(stack, topic) -> None:
    topic.write(5)
    token = stack.service().headers["Authorization"].removeprefix("Bearer ")
    ours = Topics(f"http://127.0.0.1:{stack.doors[0]}", token=token).topic(topic.name)

    async def some(count: int) -> list[tuple[int, str, object]]:
        found = []
        async for message in ours.consume(group="client", start="Earliest", limit=2):
            found.append((message.offset, message.op, message.payload))
            await message.ack()
            if len(found) == count:
                return found
        raise AssertionError("the iterator ended")

    assert asyncio.run(some(3)) == [(each, "Insert", {"id": each}) for each in range(3)]
    wait_until(lambda: asyncio.run(some(2))[0][0] in (3, 4), "the messages that were not acked", within_s=30)
    with pytest.raises(TopicError, match="Topic 'nope' does not exist"):
        asyncio.run(Topics(f"http://127.0.0.1:{stack.doors[0]}", token=token).topic("nope").ack("g", 0))
