"""Registries as processes, a gateway that sends them commands, and the topics that they write."""

import os
import signal
import subprocess
import sys
import time
from uuid import uuid4

import pytest

from proto.tidewire.v1.commands_pb2 import Command, Owner, Renew, Subscribe, Unsubscribe
from proto.topics import COMMANDS, FLOW, QUERIES, SUBSCRIPTIONS
from services.chassis.kafka import Kafka, Writer, ensure_topics
from services.chassis.kafka.partitions import PartitionsReader
from services.chassis.seal import Seal
from services.devstack.home import last_lines
from services.devstack.ports import free_port
from services.registry.core.identity import ID_BYTES
from services.registry.outbound.compacted import latest
from tests.fixtures.readiness import is_ready
from tests.fixtures.sealing import SEAL, SEALED
from tests.fixtures.waiting import wait_until

WITHIN_S = 90.0


class RegistryProcess:
    def __init__(self, section, directory, settings):
        self._port, self.log = free_port(), directory / f"registry_{uuid4().hex[:6]}.log"
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TIDEWIRE_")} | {
            "TIDEWIRE_KAFKA_BOOTSTRAP": section.bootstrap,
            "TIDEWIRE_KAFKA_TOPIC_PREFIX": section.topic_prefix,
            **SEALED,
            "TIDEWIRE_HTTP_PORT": str(self._port),
            "TIDEWIRE_REGISTRY_SESSION_TIMEOUT_S": "6",
            **{f"TIDEWIRE_REGISTRY_{name.upper()}": str(value) for name, value in settings.items()},
        }
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "services.registry"], stdout=output, stderr=output, env=environ
            )

    @property
    def ready(self):
        assert self._process.poll() is None, self.tail()
        return is_ready(self._port)

    def wait_ready(self):
        wait_until(lambda: self.ready, self.tail)
        return self

    def tail(self):
        return last_lines(self.log, 40)

    def freeze(self):
        self._process.send_signal(signal.SIGSTOP)

    def wake(self):
        self._process.send_signal(signal.SIGCONT)

    def kill(self):
        self._process.kill()
        self._process.wait()

    def stop(self):
        """In good order."""
        self._process.terminate()
        assert self._process.wait(30) == 0, self.tail()


class Gateway:
    """Sends commands as a gateway does."""

    def __init__(self, section, gateway_id="g"):
        self._writer = Writer(section, COMMANDS.name, client_id="test", partition=0, extra={"compression.type": "none"})
        self._id = gateway_id

    def subscribe(self, sql, *, owner="c", lease_ms=600_000):
        subscription_id = uuid4().bytes
        body = Subscribe(
            subscription_id=subscription_id,
            sql=sql,
            owner=Owner(role="r", connection_id=owner),
            lease_ms=lease_ms,
            barrier_id="b",
        )
        self.send(subscribe=body)
        return subscription_id

    def unsubscribe(self, subscription_id):
        self.send(unsubscribe=Unsubscribe(subscription_id=subscription_id))

    def renew(self):
        self.send(renew=Renew())

    def send(self, **body):
        command = Command(command_id=uuid4().bytes, gateway_id=self._id, sent_us=time.time_ns() // 1000, **body)
        self._writer.send(SEAL.sealed(COMMANDS, command))

    def forge(self, sql, *, role):
        """A subscribe with a seal of another key, as somebody who can write to the topic might send it."""
        body = Subscribe(
            subscription_id=uuid4().bytes, sql=sql, owner=Owner(role=role, connection_id="x"), lease_ms=600_000
        )
        command = Command(command_id=uuid4().bytes, gateway_id=self._id, sent_us=time.time_ns() // 1000, subscribe=body)
        self._writer.send(Seal(key="not the key of this stack, but as long").sealed(COMMANDS, command))
        return body.subscription_id

    def flush(self):
        self._writer.flush(WITHIN_S)

    def close(self):
        self._writer.close()


class Bench:
    """One test's topics, with what runs on them."""

    def __init__(self, section, directory):
        self._section, self._directory = section, directory
        self._registries, self._gateways = [], []

    def registry(self, **settings):
        self._registries.append(RegistryProcess(self._section, self._directory, settings))
        return self._registries[-1]

    def gateway(self, gateway_id="g"):
        self._gateways.append(Gateway(self._section, gateway_id))
        return self._gateways[-1]

    def queries(self):
        return latest(self._section, QUERIES)

    def subscriptions(self):
        """The subscription ids that are held, each with its query's id."""
        return {key[ID_BYTES:]: key[:ID_BYTES] for key in latest(self._section, SUBSCRIPTIONS)}

    def wait_for_subscriptions(self, ids):
        """Until exactly these are held, by exactly the queries that they need."""
        wanted = set(ids)

        def whole():
            held = self.subscriptions()
            return held.keys() == wanted and set(held.values()) == self.queries().keys()

        tails = lambda: "\n".join(one.tail() for one in self._registries)  # noqa: E731
        wait_until(whole, tails)

    def written(self, topic):
        """Every record that was ever written and is still there, ended ones as None."""
        reader = PartitionsReader(self._section, topic.name, client_id="test")
        try:
            bounds = {number: reader.low_and_high(number) for number in range(topic.partitions)}
            reader.add({number: low for number, (low, _) in bounds.items()})
            messages = list(reader.read_up_to({number: high for number, (_, high) in bounds.items()}))
        finally:
            reader.close()
        return [(one.key(), None if one.value() is None else topic.decode(one.value())) for one in messages]

    def end(self):
        for registry in self._registries:
            registry.wake()
            registry.kill()
        for gateway in self._gateways:
            gateway.close()


@pytest.fixture
def bench(kafka, topic_prefix, tmp_path):
    section = Kafka(bootstrap=kafka.bootstrap, topic_prefix=topic_prefix)
    ensure_topics(section, FLOW)
    made = Bench(section, tmp_path)
    yield made
    made.end()
