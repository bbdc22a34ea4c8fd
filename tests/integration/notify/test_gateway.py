"""A real gateway before the NOTIFY door's schema: another channel's name, and what it says when that is not there."""

import time

import psycopg
import pytest
import structlog
from confluent_kafka import Producer
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from proto.tidewire.v1.notifications_pb2 import NotificationRecord
from proto.topics import NOTIFICATIONS
from services.capture.outbound import watch
from services.chassis.kafka import Kafka
from services.devstack.ports import free_port
from services.gateway.core.notify.continuity import Gap
from services.gateway.inbound.notifications import NotificationLog
from services.recompute.core.notify.registration import partition_of_name
from tests.fixtures.gateway import start_gateway
from tests.fixtures.http_port import SECRET, token
from tests.fixtures.notify_worker import NotifyWorker
from tests.fixtures.waiting import wait_until

PREFIX, DATABASE = "notify_gateway.", "notify_gateway"


class Running:
    def __init__(self, dsn, gateway, http_port):
        self.dsn, self._http_port = dsn, http_port
        parts = psycopg.conninfo.conninfo_to_dict(dsn)
        self.user = parts["user"]
        self.through = psycopg.conninfo.make_conninfo(**{**parts, "host": "127.0.0.1", "port": gateway.port})

    def sql(self, statement):
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            found = connection.execute(statement)
            return found.fetchone()[0] if found.description else None

    def socket(self, query_id, by_query=False, **claims):
        bearer = token({"exp": time.time() + 600, "sub": "reader", **claims})
        headers = None if by_query else {"Authorization": f"Bearer {bearer}"}
        rest = f"?token={bearer}" if by_query else ""
        return connect(f"ws://127.0.0.1:{self._http_port}/ws/{query_id}{rest}", additional_headers=headers)

    def status(self, query_id, **options):
        """101, or the status that refuses the upgrade."""
        try:
            with self.socket(query_id, **options):
                return 101
        except InvalidStatus as refusal:
            return refusal.response.status_code


@pytest.fixture(scope="module")
def running(postgres_server, kafka, tmp_path_factory):
    dsn, http_port = postgres_server.create_database(DATABASE), free_port()
    with psycopg.connect(dsn, autocommit=True) as connection:
        watch.install(connection)
        connection.execute(f"ALTER DATABASE {DATABASE} SET pg_reactive.notify_channel = 'elsewhere'")
    settings = {"http_port": str(http_port), "http_jwt_secret": SECRET}
    directory = tmp_path_factory.mktemp(DATABASE)
    with start_gateway(directory, dsn=dsn, kafka=kafka.bootstrap, prefix=PREFIX, settings=settings) as gateway:
        yield Running(dsn, gateway, http_port)
    postgres_server.drop_database(DATABASE)


def payloads(session, within_s):
    return [one.payload for one in session.notifies(timeout=within_s)]


def test_p31_another_channel_is_listened_to_by_its_name_and_sockets_go_on(running, kafka):
    """P1, P31: `LISTEN pgr` hears nothing then, as documented; a WebSocket has no channel and hears all the same."""
    worker = NotifyWorker(kafka.bootstrap, PREFIX, role=running.user, channel="elsewhere")
    gen = running.sql("SELECT pgr.subscribe('q', 'SELECT 1 AS id')")["gen"]
    with (
        psycopg.connect(running.through, autocommit=True) as literal,
        psycopg.connect(running.through, autocommit=True) as named,
        running.socket("q") as socket,
    ):
        literal.execute("LISTEN pgr")
        assert "subscribed" in socket.recv(timeout=30)
        heard = []

        def is_heard():
            named.execute("LISTEN elsewhere")
            told = worker.delta("q", gen)
            heard.extend(payloads(named, 0.5))
            return told in heard

        wait_until(is_heard, lambda: heard)
        assert socket.recv(timeout=30).startswith('{"query_id":"q","seq":')
        assert payloads(literal, 0.5) == []
    worker.close()


def test_p32_refusals_come_before_the_upgrade(running):
    """P32, P33, P34: pgr.proxy, in the order of decision 30; registrations that cannot be read are 503, not 404."""
    running.sql("""SELECT pgr.subscribe('of_42', 'SELECT 1 AS id', audience => '{"sub": "42"}')""")
    assert running.status("of_42", sub="42") == running.status("of_42", by_query=True, sub="42") == 101
    assert running.status("of_42", sub="43") == running.status("no_such") == 404
    assert running.status("of_42", sub="42", exp=time.time() - 600) == 401
    running.sql("ALTER FUNCTION _tidewire.registered(text) RENAME TO away")
    try:
        assert running.status("of_42", sub="42") == running.status("no_such") == 503
        assert running.status("no_such", exp=time.time() - 600) == 401
    finally:
        running.sql("ALTER FUNCTION _tidewire.away(text) RENAME TO registered")
    assert running.status("of_42", sub="42") == 101


async def test_p35_a_reader_notices_that_records_are_missing(running, kafka):
    """P35: offsets that were skipped, as compaction does to a reader that is far behind."""
    own = Kafka(bootstrap=kafka.bootstrap, topic_prefix=PREFIX)
    worker, log = NotifyWorker(kafka.bootstrap, PREFIX), NotificationLog(own, log=structlog.get_logger())
    # What an aborted transaction wrote is there and never read.
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": "gap"})
    producer.init_transactions(30)
    batches = log.batches()

    async def told():
        worker.delta("q", 1)
        found = []
        while not any(isinstance(one, NotificationRecord) for one in found):
            found += await anext(batches)
        return [type(one) for one in found]

    try:
        assert await told() == await told() == [NotificationRecord]
        producer.begin_transaction()
        partition = partition_of_name("q")
        producer.produce(own.broker_name(NOTIFICATIONS.name), b"never read", key=b"gap", partition=partition)
        producer.flush(30)
        producer.abort_transaction(30)
        assert await told() == [Gap, NotificationRecord]
        # The mark of the abort is a place of its own, and may come behind the next record.
        assert [await told() for _ in range(2)][-1] == [NotificationRecord]
    finally:
        worker.close()
        await batches.aclose()
        log.close()


def test_p34_what_is_registered_is_asked_of_postgresql_each_time(running):
    """P34: a registration counts from its commit on, and another audience too."""
    assert running.status("fresh") == 404
    with psycopg.connect(running.dsn) as connection:
        connection.execute("SELECT pgr.subscribe('fresh', 'SELECT 1 AS id')")
        assert running.status("fresh") == 404
    assert running.status("fresh") == 101
    running.sql("""SELECT pgr.subscribe('fresh', 'SELECT 1 AS id', audience => '{"sub": "42"}')""")
    assert running.status("fresh") == 404
    running.sql("SELECT pgr.unsubscribe('fresh')")
    assert running.status("fresh", sub="42") == 404
