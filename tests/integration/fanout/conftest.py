"""Fanouts as processes, and both ends of their harness: `deltas` and `subscriptions` in, `deliveries` out."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from uuid import uuid4

import orjson
import pytest

from proto.partitions import PARTITIONS
from proto.tidewire.v1.deltas_pb2 import DELTA_KIND_NET, Delta, DeltaFence, DeltaRecord, Snapshot
from proto.tidewire.v1.subscriptions_pb2 import Refusal, Subscription, SubscriptionRecord
from proto.topics import DELIVERIES, DELTAS, FLOW, SUBSCRIPTIONS
from services.chassis.kafka import Kafka, Writer, ensure_topics
from services.chassis.kafka.partitions import PartitionsReader
from services.devstack.home import last_lines
from services.devstack.ports import free_port
from tests.fixtures.waiting import wait_until

WITHIN_S = 60.0


class Fanout:
    """A process."""

    def __init__(self, section, directory):
        self._port, self.log = free_port(), directory / f"fanout_{uuid4().hex[:6]}.log"
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TIDEWIRE_")} | {
            "TIDEWIRE_KAFKA_BOOTSTRAP": section.bootstrap,
            "TIDEWIRE_KAFKA_TOPIC_PREFIX": section.topic_prefix,
            "TIDEWIRE_HTTP_PORT": str(self._port),
        }
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "services.fanout"], stdout=output, stderr=output, env=environ
            )

    def readiness(self):
        """Whether it is ready, and why not."""
        assert self._process.poll() is None, self.tail()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=5) as answer:
                return True, orjson.loads(answer.read())["reason"]
        except urllib.error.HTTPError as error:
            with error:
                return False, orjson.loads(error.read())["reason"]
        except OSError as error:
            return False, str(error)

    def wait_ready(self):
        wait_until(lambda: self.readiness()[0], self.tail)
        return self

    def tail(self):
        return last_lines(self.log, 40)

    def kill(self):
        """-9."""
        self._process.kill()
        self._process.wait()

    def stop(self):
        """In good order."""
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(30) == 0, self.tail()

    def end(self):
        self._process.kill()
        self._process.wait()


def query_in(partition):
    """A query id of this partition."""
    return partition.to_bytes(8) + os.urandom(8)


class FanoutHarness:
    """Writes what recompute and the registry write, and reads what gateways read."""

    def __init__(self, section, directory):
        self._section, self._directory = section, directory
        self._fanouts = []
        self._deltas = Writer(section, DELTAS.name, client_id="test")
        self._subscriptions = Writer(section, SUBSCRIPTIONS.name, client_id="test")
        self._reader = PartitionsReader(section, DELIVERIES.name, client_id="test")
        self._reader.add(dict.fromkeys(range(DELIVERIES.partitions), 0))
        # Of each gateway what it was sent, in order.
        self.arrived = {}
        self.partitions = {}
        for partition in range(PARTITIONS):
            record = DeltaRecord(epoch=1, writer=7, fence=DeltaFence(worker_id="w", history=1))
            self._deltas.send(record.SerializeToString(), partition=partition)

    def fanout(self):
        self._fanouts.append(Fanout(self._section, self._directory))
        return self._fanouts[-1]

    def subscribe(self, query_id, gateway_id, delivery_partition):
        record = SubscriptionRecord(
            subscription_id=uuid4().bytes,
            gateway_id=gateway_id,
            delivery_partition=delivery_partition,
            accepted=Subscription(query_id=query_id),
        )
        self._put(query_id, record)

    def refuse(self, query_id, gateway_id, delivery_partition, message):
        record = SubscriptionRecord(
            subscription_id=uuid4().bytes,
            gateway_id=gateway_id,
            delivery_partition=delivery_partition,
            refused=Refusal(message=message),
        )
        self._put(query_id, record, ended=True)

    def change(self, query_id, number):
        """One more delta of the query; its number stands as its LSN."""
        delta = Delta(query_id=query_id, from_lsn=number - 1, to_lsn=number, kind=DELTA_KIND_NET, last=True)
        self._write(DeltaRecord(epoch=1, writer=7, delta=delta), query_id)

    def snapshot(self, query_id, gateway_id, delivery_partition, number):
        result = Delta(query_id=query_id, to_lsn=number, last=True)
        snapshot = Snapshot(
            request_id=uuid4().bytes, gateway_id=gateway_id, delivery_partition=delivery_partition, result=result
        )
        self._write(DeltaRecord(epoch=1, writer=7, snapshot=snapshot), query_id)

    def flush(self):
        assert self._deltas.flush(WITHIN_S) == 0 and self._subscriptions.flush(WITHIN_S) == 0

    def look(self):
        """Take in what has come."""
        for message in self._reader.read(0.02):
            delivery = DELIVERIES.decode(message.value())
            self.arrived.setdefault(delivery.gateway_id, []).append(delivery)
            self.partitions.setdefault(delivery.gateway_id, set()).add(message.partition())
        return self.arrived

    def numbers(self, gateway_id, query_id):
        """The deltas of a query as the gateway reads them: what it has already is dropped."""
        numbers = []
        for delivery in self.arrived.get(gateway_id, ()):
            delta = delivery.delta.delta
            if delta.query_id == query_id and (not numbers or delta.to_lsn > numbers[-1]):
                numbers.append(delta.to_lsn)
        return numbers

    def tails(self):
        return "\n\n".join(one.tail() for one in self._fanouts)

    def end(self):
        for one in self._fanouts:
            one.end()
        for writer in (self._deltas, self._subscriptions):
            writer.close()
        self._reader.close()

    def _put(self, query_id, record, *, ended=False):
        key, partition = query_id + record.subscription_id, int.from_bytes(query_id[:8]) % PARTITIONS
        self._subscriptions.send(record.SerializeToString(), key=key, partition=partition)
        if ended:
            self._subscriptions._producer.produce(self._section.broker_name(SUBSCRIPTIONS.name), None, key, partition)
        assert self._subscriptions.flush(WITHIN_S) == 0

    def _write(self, record, query_id):
        partition = int.from_bytes(query_id[:8]) % PARTITIONS
        self._deltas.send(record.SerializeToString(), key=query_id, partition=partition)


@pytest.fixture
def section(kafka, topic_prefix):
    made = Kafka(bootstrap=kafka.bootstrap, topic_prefix=topic_prefix)
    ensure_topics(made, FLOW)
    return made


@pytest.fixture
def harness(section, tmp_path):
    made = FanoutHarness(section, tmp_path)
    yield made
    made.end()
