"""A gateway process between real clients, Kafka, PostgreSQL and Redis; the test plays the services behind it.

V18–V19, V22–V23, V26–V30, V42, V55–V56; law 6 of the design: who is slow or paused costs a bounded amount.
"""

import os
import re
import signal
import time
from uuid import uuid4

import psycopg
import pytest

from proto.pgwire import live
from proto.pgwire.live import NO_SUBSCRIPTION, Ack, Data, PartialData, PartialRow, Refused, Update
from proto.positions import parse_lsn
from tests.fixtures.kafka import start_kafka
from tests.fixtures.waiting import wait_until
from tests.integration.gateway.harness import GatewayHarness
from tests.property.binary_client import plain
from tests.property.delivery_model import Held, Worker
from tests.property.delivery_model import Update as HeldUpdate

NAME = f"live_{os.getpid()}"
SQL = "SELECT id, note, more FROM notes"
ROW = (b"1", b"a", b"b")
FROZEN_S = 20.0


@pytest.fixture(scope="module")
def dsn(postgres_server):
    dsn = postgres_server.create_database(NAME)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE notes (id int PRIMARY KEY, note text, more text)")
    yield dsn
    postgres_server.drop_database(NAME)


@pytest.fixture
def harness(dsn, kafka, topic_prefix, redis_server, tmp_path):
    made = GatewayHarness(dsn, kafka.bootstrap, topic_prefix, redis_server.url, tmp_path)
    yield made
    made.end()


def followed(held, messages, worker):
    """Take messages until the client holds what the worker does."""
    while held.rows != worker.rows:
        held.take(plain(next(messages)))


def holding(first, worker):
    held = Held(keyed=True)
    held.take(plain(first[0]))
    held.take(plain(first[1]))
    assert held.rows == worker.rows
    return held


def test_a_subscription_lives_from_its_ack_to_its_end(harness):
    gateway, worker = harness.gateway().wait_ready(), Worker()
    worker.rows[ROW] = 1
    with gateway.connect() as client, gateway.connect() as witness:
        seen, _, _, _ = harness.subscribed(witness, worker, SQL)
        messages, one, command, first = harness.subscribed(client, worker, SQL)
        assert first == (Ack(one, 1), Data(one, Update.FULL, (ROW,)))
        assert (command.subscribe.sql, one.version) == (SQL, 4)
        harness.deliver(worker.change({ROW: -1, (b"1", b"z", b"b"): 1}), command)
        assert next(messages) == PartialData(one, (PartialRow(3, {0: b"1", 1: b"z"}),))
        assert next(seen).rows == (PartialRow(3, {0: b"1", 1: b"z"}),)
        client.pause(one)
        assert harness.command("pause").pause.subscription_id == one.bytes
        harness.deliver(worker.change({(b"2", b"x", b"y"): 1}), command)
        assert next(seen).rows == ((b"2", b"x", b"y"),)
        client.resume(one)
        harness.command("resume")
        assert client.query("SELECT 1") == [(b"1",)]
        harness.deliver(worker.change({(b"3", b"x", b"y"): 1}), command)
        assert next(messages) == Data(one, Update.INSERT, ((b"2", b"x", b"y"), (b"3", b"x", b"y")))
        client.unsubscribe(one)
        assert harness.command("unsubscribe").unsubscribe.subscription_id == one.bytes
        harness.deliver(worker.change({(b"4", b"x", b"y"): 1}), command)
        assert [next(seen).rows for _ in range(2)] == [((b"3", b"x", b"y"),), ((b"4", b"x", b"y"),)]
        assert client.next_message(0.2) is None
        assert gateway.metric("vibesql_subscription_updates_total") == 3 + 5
        assert gateway.metric("vibesql_subscriptions_active") == 1
    wait_until(lambda: gateway.metric("vibesql_subscriptions_active") == 0, gateway.tail)
    gateway.stop()


def test_v29_a_client_that_leaves_takes_its_subscriptions_with_it(harness):
    gateway, worker = harness.gateway().wait_ready(), Worker()
    with gateway.connect() as client:
        _, one, _, _ = harness.subscribed(client, worker, SQL)
    assert harness.command("unsubscribe").unsubscribe.subscription_id == one.bytes


def test_gateways_side_by_side_have_partitions_of_their_own(harness):
    """And drop what is meant for another, so that sharing one would do no harm."""
    gateways = [harness.gateway().wait_ready() for _ in range(3)]
    workers = [Worker(query_id=os.urandom(16)) for _ in gateways]
    clients = [gateway.connect() for gateway in gateways]
    subscribed = [harness.subscribed(*both, SQL) for both in zip(clients, workers, strict=True)]
    partitions = [command.delivery_partition for _, _, command, _ in subscribed]
    assert len(set(partitions)) == 3
    first, second = subscribed[0][2], subscribed[1][2]
    strayed = type(first)()
    strayed.CopyFrom(first)
    strayed.delivery_partition = second.delivery_partition
    harness.deliver(workers[0].full(rows=[(b"9", b"not", b"theirs")]), strayed)
    for (messages, one, command, _), worker in list(zip(subscribed, workers, strict=True))[1:]:
        harness.deliver(worker.change({ROW: 1}), command)
        assert next(messages) == Data(one, Update.INSERT, (ROW,))
    for client in clients:
        client.close()


def test_a_gap_in_the_deliveries_is_closed_by_a_whole_result(harness):
    gateway, worker = harness.gateway().wait_ready(), Worker()
    with gateway.connect() as client:
        messages, one, command, _ = harness.subscribed(client, worker, SQL)
        worker.change({ROW: 1})
        harness.deliver(worker.change({(b"2", b"x", b"y"): 1}), command)
        request = harness.command("snapshot_request").snapshot_request
        assert request.query_id == worker.change({})[0].delta.query_id
        harness.deliver(worker.snapshot(uuid4()), command)
        assert next(messages) == Data(one, Update.FULL, (ROW, (b"2", b"x", b"y")))


def test_who_does_not_read_costs_a_bounded_amount_and_nobody_else_waits(harness):
    """2,500 changes of 8 KiB to a client that does not read, with a ring of 1 MiB."""
    gateway = harness.gateway(TIDEWIRE_GATEWAY_RING_BYTES=str(1024 * 1024)).wait_ready()
    worker = Worker()
    with gateway.connect() as slow, gateway.connect() as quick:
        of_slow, _, command, first = harness.subscribed(slow, worker, SQL)
        lazy = holding(first, worker)
        of_quick, _, _, first = harness.subscribed(quick, worker, SQL)
        keen = holding(first, worker)
        heaviest = 0.0
        for number in range(2500):
            row = (b"%d" % (number % 50), b"%d" % number, b"%08d" % number * 1024)
            before = next((one for one in worker.rows if one[0] == row[0]), None)
            harness.deliver(worker.change({row: 1} if before is None else {before: -1, row: 1}), command)
            if number % 100 == 99:
                followed(keen, of_quick, worker)
                heaviest = max(heaviest, gateway.metric("tidewire_gateway_ring_bytes"))
        assert heaviest <= 1024 * 1024
        # It fell off the ring: its whole result is asked for as soon as it reads.
        while gateway.metric("tidewire_gateway_resyncs_total") == 0:
            lazy.take(plain(next(of_slow)))
        harness.deliver(worker.snapshot(uuid4()), harness.command("snapshot_request"))
        followed(lazy, of_slow, worker)
        assert lazy.messages[-1].update is HeldUpdate.FULL
        assert len(lazy.messages) < 2500 / 2, "most of what it missed was never sent"
        wait_until(lambda: gateway.metric("tidewire_gateway_ring_bytes") == 0, gateway.tail)
        harness.deliver(worker.change({(b"end", b"x", b"y"): 1}), command)
        followed(lazy, of_slow, worker)
        followed(keen, of_quick, worker)


def test_who_reads_again_within_the_ring_gets_the_net(harness):
    gateway, worker = harness.gateway(TIDEWIRE_GATEWAY_RING_BYTES=str(60 * 1024 * 1024)).wait_ready(), Worker()
    with gateway.connect() as slow, gateway.connect() as quick:
        of_slow, _, command, first = harness.subscribed(slow, worker, SQL)
        lazy = holding(first, worker)
        of_quick, _, _, first = harness.subscribed(quick, worker, SQL)
        keen = holding(first, worker)
        # Sixteen mebibytes fill every socket on the way; then a few steps wait in the ring.
        for number in range(260):
            row = (b"%d" % (number % 4), b"%d" % number, b"%08d" % number * (8192 if number < 250 else 1))
            before = next((one for one in worker.rows if one[0] == row[0]), None)
            harness.deliver(worker.change({row: 1} if before is None else {before: -1, row: 1}), command)
            if number % 20 == 19:
                followed(keen, of_quick, worker)
        followed(lazy, of_slow, worker)
        assert gateway.metric("tidewire_gateway_resyncs_total") == 0
        assert len(lazy.messages) < len(keen.messages)


def test_v55_ten_thousand_subscribes_at_once_are_refused_in_words_and_nobody_else_waits(harness):
    gateway = harness.gateway().wait_ready()
    with gateway.connect() as greedy, gateway.connect() as modest:
        flood = live.encode(live.Subscribe(SQL)) * 10_000
        greedy._send(flood)
        began = time.monotonic()
        assert modest.query("SELECT 1") == [(b"1",)]
        answers = [next(greedy.messages()) for _ in range(9_900)]
        assert time.monotonic() - began < 30
        limited = [answer for answer in answers if isinstance(answer, Refused)]
        assert len(limited) == 9_900
        assert {answer.subscription for answer in limited} == {NO_SUBSCRIPTION}
        assert all(answer.message.startswith("Rate limited: retry after ") for answer in limited)
        assert modest.query("SELECT 2") == [(b"2",)]


@pytest.mark.slow
def test_a_kafka_that_freezes_costs_no_client_its_connection(dsn, redis_server, topic_prefix, tmp_path):
    with start_kafka(tmp_path / "kafka") as broker:
        harness = GatewayHarness(dsn, broker.bootstrap, topic_prefix, redis_server.url, tmp_path)
        try:
            gateway, worker = harness.gateway().wait_ready(), Worker()
            with gateway.connect() as client:
                messages, one, command, _ = harness.subscribed(client, worker, SQL)
                os.kill(broker.pid, signal.SIGSTOP)
                try:
                    thaw_s = time.monotonic() + FROZEN_S
                    while time.monotonic() < thaw_s:
                        assert client.query("SELECT 1") == [(b"1",)]
                        time.sleep(0.5)
                finally:
                    os.kill(broker.pid, signal.SIGCONT)
                harness.deliver(worker.change({ROW: 1}), command)
                assert next(messages) == Data(one, Update.INSERT, (ROW,))
        finally:
            harness.end()


def test_a_first_result_that_does_not_come_is_given_up_with_what_it_waits_for(harness):
    """The slot stands where it was made, as capture's does behind a backlog."""
    with psycopg.connect(harness.dsn, autocommit=True) as connection:
        made = "SELECT lsn::text FROM pg_create_logical_replication_slot('late_result', 'pgoutput', false)"
        (slot_at,) = connection.execute(made).fetchone()
        try:
            gateway = harness.gateway(TIDEWIRE_GATEWAY_SUBSCRIBE_TIMEOUT_S="1").wait_ready()
            with gateway.connect() as client:
                connection.execute("SELECT pg_logical_emit_message(true, 'test', repeat('x', 100000))")
                refused = next(client.subscribe(SQL))
        finally:
            connection.execute("SELECT pg_drop_replication_slot('late_result')")
    found = re.fullmatch(
        r"Execution error: no result within 1 s: it needs the changes up to (\w+/\w+), "
        r"the log of changes is at (\w+/\w+), ([\d,]+) bytes behind: subscribe again",
        refused.message,
    )
    assert found is not None, refused.message
    awaited, captured = parse_lsn(found[1]), parse_lsn(found[2])
    assert captured == parse_lsn(slot_at) and awaited - captured == int(found[3].replace(",", "")) > 100_000
