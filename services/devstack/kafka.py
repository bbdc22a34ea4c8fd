"""A real Kafka broker in KRaft mode, one node that is broker and controller."""

import contextlib
import signal
import socket
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from msgspec import Struct

from services.devstack.errors import MissingPart, PartFailed
from services.devstack.home import replace
from services.devstack.identity import OURSELVES

VERSION = "4.1.0"
# docker-compose.yml says the same; tests/architecture/test_compose.py compares.
SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "10",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "10",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # A killed broker may not register again before its old session has ended: 9 s if left alone.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # A group of one member need not wait three seconds for others.
        "group.initial.rebalance.delay.ms": "0",
    }
)
HEAP = ("-Xms128m", "-Xmx512m")
# One node with little to do: the serial collector and no second compiler tier's threads start soonest and stay small.
START_FAST = ("-XX:+UseSerialGC", "-Xshare:auto", "-XX:TieredStopAtLevel=1")
LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %-5p %c{1}: %m%n
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
logger.server.name = kafka.server.KafkaRaftServer
logger.server.level = INFO
logger.appinfo.name = org.apache.kafka.common.utils.AppInfoParser
logger.appinfo.level = ERROR
"""


class Kafka(Struct, frozen=True, kw_only=True):
    """One broker: jars, data folder, ports and settings."""

    java: str
    jars: Path
    data: Path
    port: int
    controller_port: int
    settings: Mapping[str, str] = SETTINGS
    name: str = "kafka"
    needs: tuple[str, ...] = ()
    stop_signal: signal.Signals = signal.SIGTERM

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        return {}

    def prepare(self) -> None:
        """Write the configuration, and format the log folder once."""
        if not any(self.jars.glob("kafka_*.jar")):
            raise MissingPart(f"no Kafka jars in {self.jars}: `make up` brings them through Maven")
        for folder in (self.data, self._scratch):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.data.chmod(0o700)
        replace(self._configuration, self._properties().encode())
        replace(self._logging, LOGGING.encode())
        if not (self._logs / "meta.properties").exists():
            self._format()

    def command(self) -> list[str]:
        return OURSELVES.launch([*self._jvm(), "kafka.Kafka", str(self._configuration)])

    def not_ready(self) -> str | None:
        return None if self.ready() else "does not answer"

    def ready(self) -> bool:
        """Whether it answers a request for metadata."""
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
        with contextlib.suppress(KafkaException):
            return bool(client.list_topics(timeout=2).brokers)
        return False

    @property
    def _configuration(self) -> Path:
        return self.data / "server.properties"

    @property
    def _logging(self) -> Path:
        return self.data / "log4j2.properties"

    @property
    def _logs(self) -> Path:
        return self.data / "logs"

    @property
    def _scratch(self) -> Path:
        return self.data / "scratch"

    def _properties(self) -> str:
        own = {
            "listeners": f"BROKER://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"BROKER://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "log.dirs": str(self._logs),
        }
        return "".join(f"{key}={value}\n" for key, value in (own | dict(self.settings)).items())

    def _jvm(self) -> list[str]:
        # Libraries that are unpacked to be loaded, and what the JVM tells other users of itself, stay out of /tmp.
        apart = [f"-Djava.io.tmpdir={self._scratch}", "-XX:-UsePerfData"]
        options = [*HEAP, *START_FAST, *apart, f"-Dlog4j2.configurationFile={self._logging}"]
        return [self.java, *options, "-cp", f"{self.jars}/*"]

    def _format(self) -> None:
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "_")
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--config", str(self._configuration)]
        done = subprocess.run(
            OURSELVES.launch([*self._jvm(), *tool, "--ignore-formatted"]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise PartFailed("kafka", "could not format its log folder", done.stdout)
