"""Gateways as processes, and around them what registry, recompute and fanout would do, done by the test."""

import os
import subprocess
import sys
import urllib.request
from uuid import UUID, uuid4

import psycopg

from proto.tidewire.v1.deliveries_pb2 import Delivery
from proto.topics import COMMANDS, DELIVERIES, FLOW
from services.chassis.kafka import Kafka, Reader, Writer, ensure_topics
from services.devstack.home import last_lines
from services.devstack.ports import free_port
from tests.fixtures.live_client import LiveConnection
from tests.fixtures.readiness import is_ready
from tests.fixtures.sealing import SEALED
from tests.fixtures.waiting import wait_until

WITHIN_S = 60.0


class GatewayProcess:
    def __init__(self, harness, directory, settings):
        self.port, self._http = free_port(), free_port()
        self._log = directory / f"gateway_{uuid4().hex[:6]}.log"
        self._dsn = harness.dsn
        environ = {name: value for name, value in os.environ.items() if not name.startswith("TIDEWIRE_")} | {
            "TIDEWIRE_POSTGRES_DSN": harness.dsn,
            "TIDEWIRE_POSTGRES_SUPERUSERS_SUBSCRIBE": "true",
            "TIDEWIRE_KAFKA_BOOTSTRAP": harness.section.bootstrap,
            "TIDEWIRE_KAFKA_TOPIC_PREFIX": harness.section.topic_prefix,
            "TIDEWIRE_REDIS_URL": harness.redis_url,
            **SEALED,
            "TIDEWIRE_GATEWAY_PORT": str(self.port),
            "TIDEWIRE_HTTP_PORT": str(self._http),
            **settings,
        }
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "services.gateway"], stdout=output, stderr=output, env=environ
            )

    @property
    def pid(self):
        return self._process.pid

    def wait_ready(self):
        wait_until(self._ready, self.tail)
        return self

    def connect(self):
        parts = psycopg.conninfo.conninfo_to_dict(self._dsn)
        dsn = psycopg.conninfo.make_conninfo(**{**parts, "host": "127.0.0.1", "port": self.port})
        return LiveConnection(dsn, timeout_s=WITHIN_S)

    def metric(self, name):
        """The sum over its labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._http}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)

    def tail(self):
        return last_lines(self._log, 40)

    def stop(self):
        self._process.terminate()
        assert self._process.wait(30) == 0, self.tail()

    def end(self):
        self._process.kill()
        self._process.wait()

    def _ready(self):
        assert self._process.poll() is None, self.tail()
        return is_ready(self._http)


class GatewayHarness:
    def __init__(self, dsn, kafka, prefix, redis_url, directory):
        self.dsn, self.redis_url, self._directory = dsn, redis_url, directory
        self.section = Kafka(bootstrap=kafka, topic_prefix=prefix)
        ensure_topics(self.section, FLOW)
        self._gateways = []
        self._deliveries = Writer(self.section, DELIVERIES.name, client_id="test")
        self._commands = Reader(self.section, COMMANDS.name, client_id="test")
        self._commands.seek_to(0)
        self.commands = []

    def gateway(self, **settings):
        self._gateways.append(GatewayProcess(self, self._directory, settings))
        return self._gateways[-1]

    def command(self, kind):
        """The next command of this kind, whoever sent it."""

        def taken():
            self.commands += [COMMANDS.decode(one.value()) for one in self._commands.read(500, 0.05)]
            found = next((one for one in self.commands if one.WhichOneof("body") == kind), None)
            if found is not None:
                self.commands.remove(found)
            return found

        return wait_until(taken, lambda: "\n".join(one.tail() for one in self._gateways))

    def deliver(self, records, to):
        """`to` is a command of the gateway that is meant."""
        for record in records:
            delivery = Delivery(gateway_id=to.gateway_id, delta=record)
            self._deliveries.send(delivery.SerializeToString(), partition=to.delivery_partition)
        self._deliveries.poll()

    def subscribed(self, client, worker, sql):
        """The messages from the first change on, the subscription, and its command."""
        messages = client.subscribe(sql)
        command = self.command("subscribe")
        subscription = UUID(bytes=command.subscribe.subscription_id)
        self.deliver(worker.snapshot(subscription), command)
        ack, first = next(messages), next(messages)
        return messages, subscription, command, (ack, first)

    def end(self):
        for one in self._gateways:
            one.end()
        self._deliveries.close()
        self._commands.close()
