"""What survives: kills of the gateway, of Redis, of Kafka, and other gateways beside it."""

import secrets
import threading

import psycopg
import pytest
import redis

from tests.fixtures.cdc import cdc_stack
from tests.fixtures.kafka import start_kafka
from tests.fixtures.redis import start_redis
from tests.fixtures.waiting import wait_until

SUBSCRIBERS = 50


@pytest.fixture(scope="module")
def own(postgres_server, tmp_path_factory):
    """A stack with a Kafka and a Redis of its own, which tests kill."""
    folder = tmp_path_factory.mktemp("cdc_own")
    name = f"cdc_{secrets.token_hex(5)}"
    dsn = postgres_server.create_database(name)
    with (
        start_kafka(folder / "kafka") as kafka,
        start_redis(folder / "redis") as server,
        cdc_stack(dsn, kafka, server, folder) as stack,
    ):
        stack.kafka, stack.redis = kafka, server
        yield stack
    postgres_server.drop_database(name)


def restarted(stack):
    """Kill the gateway and start another; the door's callers from then on."""
    stack.gateways[-1].kill()
    stack.start_gateway()
    return stack.service(door=-1)


def subscribed(stack, service, table, **params):
    return service.result("cdc.subscribe_table", db=stack.database, table=table, format="plain_json", **params)


def again(service, method, **params):
    """Call until it is no longer 503."""
    answers = []

    def answered():
        answers[:] = [service.call(method, **params)]
        return answers[0]["status"] != 503

    wait_until(answered, lambda: answers)
    assert answers[0]["ok"], answers
    return answers[0]["result"]


def keys(service, sub):
    found = again(service, "cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])
    return [event["pk"][0] for event in found["events"]]


def test_acknowledged_offsets_survive_restart_until_close(own):
    """S7, S22, S42, S44: also when Redis has lost everything."""
    service, table = own.service(door=-1), own.table("id int PRIMARY KEY")
    sub = subscribed(own, service, table)
    own.sql(f"INSERT INTO {table} VALUES (1), (2)")
    first = service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])
    service.result("cdc.ack", sub_id=sub["sub_id"], offset=first["events"][0]["seq"])
    service = restarted(own)
    assert keys(service, sub) == [2]
    redis.Redis.from_url(own.redis.url).flushall()
    assert keys(service, sub) == [2]
    own.redis.kill()
    own.redis.restart()
    assert keys(service, sub) == [2]
    again(service, "cdc.close", sub_id=sub["sub_id"])
    redis.Redis.from_url(own.redis.url).flushall()
    service = restarted(own)
    wait_until(lambda: service.call("system.ping")["ok"], "the gateway answers")
    wait_until(lambda: service.call("cdc.poll", sub_id=sub["sub_id"], from_offset=0)["status"] == 200, "filled")
    assert service.refusal("cdc.poll", sub_id=sub["sub_id"], from_offset=0)[0] == "not_found"


def test_pause_and_resume_state_survives_restart(own):
    """S24, S44."""
    service, table = own.service(door=-1), own.table("id int PRIMARY KEY")
    sub = subscribed(own, service, table)
    other = subscribed(own, service, table)
    for paused in (sub, other):
        service.result("cdc.pause", sub_id=paused["sub_id"])
    service.result("cdc.resume", sub_id=other["sub_id"])
    own.sql(f"INSERT INTO {table} VALUES (1)")
    service = restarted(own)
    redis.Redis.from_url(own.redis.url).flushall()
    assert (keys(service, sub), keys(service, other)) == ([], [1])
    again(service, "cdc.resume", sub_id=sub["sub_id"])
    assert keys(service, sub) == [1]


def test_a_lost_redis_is_503_and_never_not_found(own):
    """A cursor that is missing never means "start at the end"."""
    service, table = own.service(door=-1), own.table("id int PRIMARY KEY")
    sub = subscribed(own, service, table)
    own.redis.kill()
    try:
        answer = service.call("cdc.poll", sub_id=sub["sub_id"], from_offset=0)
        assert (answer["status"], answer["ok"], answer["error"]["code"]) == (503, False, "internal")
        assert service.get(f"/api/v1/cdc/sse/{sub['sub_id']}").status == 503
    finally:
        own.redis.restart()
    codes = set()
    wait_until(lambda: codes.add(service.call("cdc.pause", sub_id=sub["sub_id"])["status"]) or 200 in codes, codes)
    assert codes <= {200, 503}
    again(service, "cdc.resume", sub_id=sub["sub_id"])


def test_a_subscription_goes_on_at_another_gateway(own):
    """S7, S26."""
    service, table = own.service(door=-1), own.table("id int PRIMARY KEY")
    sub = subscribed(own, service, table)
    own.sql(f"INSERT INTO {table} VALUES (1), (2)")
    first = service.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"], limit=1)
    own.start_gateway()
    second = own.service(door=-1)
    again(second, "cdc.ack", sub_id=sub["sub_id"], offset=first["next_offset"])
    assert keys(service, sub) == keys(second, sub) == [2]
    with service.sse(sub["sub_id"]) as stream:
        assert stream.next().data["pk"] == [2]
        second.result("cdc.pause", sub_id=sub["sub_id"])
        assert stream.next().data["state"] == "paused"


class Reader(threading.Thread):
    """Polls and acks, or streams and acks, through whatever happens; notes what it was given."""

    def __init__(self, stack, sub, *, streams):
        super().__init__(daemon=True)
        self.stack, self.sub, self.streams = stack, sub, streams
        self.seen: list[tuple[int, int]] = []
        self.acked = sub["offset"]
        self.faults: list[str] = []
        self.done = threading.Event()

    def run(self):
        while not self.done.is_set():
            service = self.stack.service(door=-1)
            try:
                self._stream(service) if self.streams else self._poll(service)
            except (OSError, ValueError, AssertionError):
                self.done.wait(0.1)  # the gateway is gone, or answers 503

    def _note(self, event):
        if event["seq"] <= self.acked:
            self.faults.append(f"seq {event['seq']} came though {self.acked} was acked")
        self.seen.append((event["seq"], event["pk"][0]))

    def _ack(self, service, offset):
        answer = service.call("cdc.ack", sub_id=self.sub["sub_id"], offset=offset)
        if answer["ok"]:
            if answer["result"]["acked_offset"] < self.acked:
                self.faults.append("the cursor went back")
            self.acked = answer["result"]["acked_offset"]

    def _poll(self, service):
        answer = service.call("cdc.poll", sub_id=self.sub["sub_id"], from_offset=0, wait_ms=500, limit=20)
        if not answer["ok"]:
            if answer["status"] != 503:
                self.faults.append(str(answer))
            self.done.wait(0.1)
            return
        for event in answer["result"]["events"]:
            self._note(event)
        if answer["result"]["events"]:
            self._ack(service, answer["result"]["next_offset"])

    def _stream(self, service):
        with service.sse(self.sub["sub_id"]) as stream:
            if stream.answer.status != 200:
                self.done.wait(0.1)
                return
            stream.socket.settimeout(3)
            unacked = 0
            while not self.done.is_set():
                event = stream.next()
                if event is None:
                    return
                if event.name == "insert":
                    self._note(event.data)
                    unacked += 1
                if unacked >= 20:
                    self._ack(service, self.seen[-1][0])
                    unacked = 0


def gone_on(readers):
    """Whether each of them has been given something since now."""
    before = [len(reader.seen) for reader in readers]
    return lambda: all(len(reader.seen) > count for reader, count in zip(readers, before, strict=True))


def test_kills_lose_nothing_and_never_repeat_what_was_acked(own):
    """S22, S26: 50 subscribers poll and stream while gateway, Redis and Kafka are killed."""
    service, table = own.service(door=-1), own.table("id int PRIMARY KEY")
    readers = [Reader(own, subscribed(own, service, table), streams=number % 2 == 0) for number in range(SUBSCRIBERS)]
    for reader in readers:
        reader.start()
    stop = threading.Event()

    def write():
        with psycopg.connect(own.captured.dsn, autocommit=True) as connection:
            number = 0
            while not stop.is_set():
                connection.execute(f"INSERT INTO {table} VALUES ({number})")
                number += 1
                stop.wait(0.05)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for kill in ("gateway", "redis", "kafka"):
            wait_until(gone_on(readers), f"all go on before the next kill, of {kill}")
            if kill == "gateway":
                own.gateways[-1].kill()
                own.start_gateway()
            else:
                server = getattr(own, kill)
                server.kill()
                server.restart()
    finally:
        stop.set()
        writer.join()
    written = [number for (number,) in own.sql(f"SELECT id FROM {table} ORDER BY id")]
    wait_until(
        lambda: all(reader.seen and reader.seen[-1][1] == written[-1] for reader in readers),
        lambda: sorted(len(reader.seen) for reader in readers),
    )
    for reader in readers:
        reader.done.set()
    for reader in readers:
        reader.join(10)
        assert reader.faults == []
        assert list(dict.fromkeys(key for _, key in reader.seen)) == written
