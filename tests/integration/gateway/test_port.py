"""A session on the PG port, frame by frame: V4, V21–V23, V29, V61, V62, decision 4."""

import os
import struct

import psycopg
import pytest

from proto.pgwire.framing import Frame, encode_frame
from proto.pgwire.live import NO_SUBSCRIPTION, Refused, Subscribe, Unsubscribe
from tests.fixtures.wire import WireClient, rows
from tests.integration.gateway.port import RunningPort

ROLE = f"port_{os.getpid()}"
ASK = Subscribe("SELECT 1")
NOTHING = struct.pack("!h", 0)
PARSE = ("P", b"\0SELECT 7\0" + NOTHING)
BIND, EXECUTE, SYNC = ("B", b"\0\0" + NOTHING * 3), ("E", b"\0\0\0\0\0"), ("S", b"")


@pytest.fixture(scope="module")
def dsn(postgres_server):
    name = f"port_{os.getpid()}"
    made = postgres_server.create_database(name)
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {ROLE}")
    yield made
    postgres_server.drop_database(name)
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP ROLE {ROLE}")


@pytest.fixture
def port(dsn):
    with RunningPort(dsn) as running:
        yield running


def kinds(frames):
    return "".join(chr(frame.type) for frame in frames)


def test_settings_that_postgres_does_not_report_are_read_on_the_clients_connection(port):
    with WireClient(port.dsn) as client:
        client.query("SET bytea_output = escape; SET extra_float_digits = 0; SET search_path = a, b")
        client.query(f"SET ROLE {ROLE}")
        client.send(ASK)
        identity = port.recorder.last(1)
        assert identity.role == ROLE
        text = identity.text_settings
        assert (text.bytea_output, text.extra_float_digits, identity.search_path) == ("escape", 0, ["a", "b"])
        # And the client notices nothing of it.
        assert rows(client.query("SELECT 5")) == [(b"5",)]
        client.query("RESET ROLE; RESET ALL")
        client.send(ASK)
        assert (port.recorder.last(2).role, port.recorder.last(2).text_settings.bytea_output) == ("postgres", "hex")


def test_reading_settings_leaves_an_open_transaction_as_it_was(port, dsn):
    with WireClient(port.dsn) as client, psycopg.connect(dsn, autocommit=True) as other:
        other.execute("CREATE TABLE IF NOT EXISTS seen (n int)")
        client.query("BEGIN; SET LOCAL bytea_output = escape")
        client.send(ASK)
        assert port.recorder.last(1).text_settings.bytea_output == "escape"
        # No snapshot was taken: the isolation level can still be chosen, and a later commit is still seen.
        assert kinds(client.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")) == "CZ"
        client.send(ASK)
        port.recorder.last(2)
        other.execute("INSERT INTO seen VALUES (1)")
        assert rows(client.query("SELECT count(*) > 0 FROM seen")) == [(b"t",)]
        assert client.query("COMMIT")[-1] == Frame(ord("Z"), b"I")


def test_a_subscribe_between_parse_and_sync_disturbs_neither(port):
    with WireClient(port.dsn) as client:
        client.query("SET bytea_output = escape")
        client.send(PARSE, ASK, BIND)
        # Nothing can be asked here: both wait for the Sync.
        client.send(EXECUTE, ASK, SYNC)
        assert kinds(client.frames_to_ready()) == "12DCZ"
        assert {port.recorder.last(n).text_settings.bytea_output for n in (1, 2)} == {"escape"}


def test_the_unnamed_statement_outlives_a_subscribe(port):
    with WireClient(port.dsn) as client:
        client.send(PARSE, SYNC)
        client.frames_to_ready()
        client.send(ASK)
        port.recorder.last(1)
        client.send(BIND, EXECUTE, SYNC)
        assert rows(client.frames_to_ready()) == [(b"7",)]


def test_a_failed_transaction_stays_as_it_was(port):
    with WireClient(port.dsn) as client:
        assert client.query("BEGIN; SELECT 1/0")[-1] == Frame(ord("Z"), b"E")
        client.send(ASK)
        port.recorder.wait(lambda recorder: recorder.refused)
        assert "ROLLBACK and subscribe again" in port.recorder.refused[0]
        assert client.query("ROLLBACK")[-1] == Frame(ord("Z"), b"I")


def test_a_subscribe_behind_a_query_in_one_write_waits_for_nothing(port):
    with WireClient(port.dsn) as client:
        client.send(("Q", b"SELECT pg_sleep(0.2), 3\0"), ASK, ("Q", b"SELECT 4\0"))
        port.recorder.last(1)
        assert rows(client.frames_to_ready() + client.frames_to_ready()) == [(b"", b"3"), (b"4",)]


def test_many_subscribes_at_once_read_the_settings_once(port):
    with WireClient(port.dsn) as client:
        client.query("SET bytea_output = escape")
        client.send(*[ASK] * 50)
        assert {port.recorder.last(n).text_settings.bytea_output for n in range(1, 51)} == {"escape"}
        assert rows(client.query("SELECT 6")) == [(b"6",)]


def test_a_query_sent_while_settings_are_read_is_answered_after_them(port):
    with WireClient(port.dsn) as client:
        for number in range(200):
            client.send(ASK, ("Q", f"SELECT {number}\0".encode()))
            assert rows(client.frames_to_ready()) == [(str(number).encode(),)]


def test_settings_of_the_users_own_are_read_outside_of_transactions_only(dsn):
    with RunningPort(dsn, names=("app.tenant", "app.never_set")) as port, WireClient(port.dsn) as client:
        client.query("SET app.tenant = '5'")
        client.send(ASK)
        identity = port.recorder.last(1)
        assert (identity.known("app.tenant"), identity.known("app.never_set")) == ("5", None)
        client.query("BEGIN; SET LOCAL app.tenant = '6'")
        client.send(ASK)
        assert port.recorder.last(2).known("app.tenant") is None
        assert client.query("COMMIT")[-1] == Frame(ord("Z"), b"I")


def test_copies_do_not_lose_count(port):
    """COPY by the extended protocol ends with two Syncs and one ReadyForQuery."""
    with WireClient(port.dsn) as client:
        client.query("CREATE TEMP TABLE copied (n int)")
        copy = ("P", b"\0COPY copied FROM STDIN\0" + NOTHING)
        client.send(copy, BIND, EXECUTE, SYNC, ("d", b"1\n"), ASK, ("d", b"2\n"), ("c", b""), SYNC)
        frames = client.frames_to_ready()
        assert kinds(frames) == "12GCZ"
        client.query("SET bytea_output = escape")
        client.send(ASK)
        assert port.recorder.last(2).text_settings.bytea_output == "escape"
        client.send(("Q", b"COPY copied FROM STDIN\0"), ("d", b"3\n"), ("c", b""))
        client.frames_to_ready()
        client.query("SET bytea_output = hex")
        client.send(ASK)
        assert port.recorder.last(3).text_settings.bytea_output == "hex"
        assert rows(client.query("SELECT sum(n) FROM copied")) == [(b"6",)]


def test_live_messages_never_stand_inside_another(port):
    """A row of megabytes is on its way while live messages are sent: they come behind it, whole."""
    with WireClient(port.dsn) as client:
        client.send(ASK)
        port.recorder.wait(lambda recorder: bool(recorder.outlets))
        (outlet,) = port.recorder.outlets.values()
        live = encode_frame(0xF3, NO_SUBSCRIPTION.bytes + b"words\0")
        client.send(("Q", b"SELECT repeat('x', 20000000) FROM generate_series(1, 3)\0"))
        for _ in range(100):
            port.call(lambda: outlet.send(live))
        frames = []
        while kinds(frames).count("Z") < 1 or kinds(frames).count("\xf3") < 100:
            frames.append(client.frame())
        assert kinds(frame for frame in frames if frame.type != 0xF3) == "TDDDCZ"
        assert {frame.body for frame in frames if frame.type == 0xF3} == {live[5:]}
        assert [len(row[0]) for row in rows(frames)] == [20_000_000] * 3


def test_a_client_that_does_not_read_is_congested_and_drained_when_it_reads_again(port):
    with WireClient(port.dsn) as client:
        client.send(ASK)
        port.recorder.wait(lambda recorder: bool(recorder.outlets))
        (outlet,) = port.recorder.outlets.values()
        client.send(("Q", b"SELECT repeat('x', 1000) FROM generate_series(1, 50000)\0"))
        while not outlet.congested:
            pass
        drains = port.recorder.drains
        assert len(rows(client.frames_to_ready())) == 50_000
        while outlet.congested or port.recorder.drains == drains:
            pass


def test_a_malformed_live_message_is_refused_and_the_session_goes_on(port):
    with WireClient(port.dsn) as client:
        for body in (
            b"",
            b"SELECT 1",
            b"\xff\xfe\0\0\0",
            b"SELECT 1\0\0\5",
            b"SELECT 1\0\xff\xff",
            b"SELECT 1\0\0\0\x7f\xff",
        ):
            client.send(("\xf0", body))
            refused = client.live()
            assert isinstance(refused, Refused) and refused.subscription == NO_SUBSCRIPTION
            assert refused.message.startswith("Parse error: ")
        client.send(("\xf1", b"short"))
        assert isinstance(client.live(), Refused)
        assert rows(client.query("SELECT 1")) == [(b"1",)]
        assert port.recorder.received == []


@pytest.mark.parametrize("bytes_", ["f07fffffff", "f0ffffffff", "f000000000", "5180000000", "4200000003"])
def test_a_frame_that_breaks_the_stream_ends_the_session_with_a_sentence(port, bytes_):
    with WireClient(port.dsn) as client:
        client.send(bytes.fromhex(bytes_))
        frame = client.frame()
        assert (frame.type, b"C08P01\0" in frame.body) == (ord("E"), True)
        assert client.frame() is None


def test_a_client_that_leaves_is_told_to_the_rest(port):
    client = WireClient(port.dsn)
    client.send(ASK)
    port.recorder.last(1)
    client.close()
    port.recorder.wait(lambda recorder: len(recorder.closed) == 1)
    with WireClient(port.dsn) as other:
        other.send(Unsubscribe(NO_SUBSCRIPTION))
        port.recorder.wait(lambda recorder: recorder.unsubscribed)
        other.send(("X", b""))
        assert other.frame() is None
    port.recorder.wait(lambda recorder: len(recorder.closed) == 2)


def test_a_client_is_told_that_the_gateway_shuts_down(port):
    with WireClient(port.dsn) as client:
        client.query("SELECT 1")
        port.stop()
        frame = client.frame()
        assert (frame.type, b"C57P01\0" in frame.body) == (ord("E"), True)


def test_a_backend_that_is_ended_ends_its_client_with_postgres_own_words(port, dsn):
    with WireClient(port.dsn) as client, psycopg.connect(dsn, autocommit=True) as other:
        ((pid,),) = rows(client.query("SELECT pg_backend_pid()"))
        other.execute("SELECT pg_terminate_backend(%s)", [int(pid)])
        frame = client.frame()
        assert (frame.type, b"terminating connection" in frame.body) == (ord("E"), True)
        assert client.frame() is None


def test_a_postgres_that_is_away_is_said_so(dsn):
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    with (
        RunningPort(psycopg.conninfo.make_conninfo(**{**parts, "port": 1})) as port,
        pytest.raises(psycopg.OperationalError, match="PostgreSQL does not answer"),
    ):
        psycopg.connect(port.dsn)


def test_the_lsn_is_wanted_by_a_startup_setting(port):
    for options, wanted in (("", False), ("-c tidewire.lsn=on", True)):
        with WireClient(psycopg.conninfo.make_conninfo(port.dsn, options=options)) as client:
            client.send(ASK)
            count = len(port.recorder.received) + 1
            port.recorder.last(count)
            assert port.recorder.wants_lsn[port.recorder.received[-1][1].connection_id] == wanted


def test_a_result_larger_than_what_may_stay_unread_reaches_a_client_that_reads(dsn):
    large = encode_frame(0xF2, b"x" * 20_000_000)
    with RunningPort(dsn) as port, WireClient(port.dsn) as client:
        client.send(ASK)
        port.recorder.last(1)
        (outlet,) = port.recorder.outlets.values()
        port.call(lambda: outlet.send(large))
        assert client.frame() == Frame(0xF2, large[5:])
        # Who does not read is left when more comes than may wait for it.
        for _ in range(2):
            port.call(lambda: outlet.send(large))
        port.recorder.wait(lambda recorder: bool(recorder.closed))
