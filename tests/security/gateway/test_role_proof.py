"""Whose rights a subscription has is proven, never believed (issue 10, A)."""

import struct
import threading
import time

import psycopg
import pytest

from proto.pgwire.framing import Framer, encode_frame
from proto.pgwire.live import Refused, Subscribe
from tests.fixtures.live_client import Scram
from tests.fixtures.wire import WireClient, rows
from tests.security.gateway.house import ALONE, APP, BOSS, HIDDEN, READER, SHOWN, role

COUNT0 = struct.pack("!h", 0)
BIND, EXECUTE, SYNC, DONE = ("B", b"\0\0" + COUNT0 * 3), ("E", bytes(5)), ("S", b""), ("c", b"")
# What an attacker would like to be taken for the answer to a question for role, search_path and two more settings.
FORGED = (
    f"SELECT CASE n WHEN 1 THEN '{BOSS}' WHEN 2 THEN 'public' WHEN 3 THEN 'hex' ELSE '1' END "
    "FROM generate_series(1, 4) n, pg_sleep(0.3)"
)


def parse(sql):
    return "P", b"\0" + sql.encode() + b"\0" + COUNT0


def query(sql):
    return "Q", sql.encode() + b"\0"


@pytest.mark.parametrize(
    "options",
    [f"-c foo.b$-crole={BOSS}", f"-c foo.bar=1$--role={BOSS}", f"-cfoo.a=x-crole={BOSS}", f"-c foo.b=\\ -crole={BOSS}"],
)
@pytest.mark.parametrize("batch", [True, False], ids=["in a batch", "alone"])
def test_start_up_text_decides_nothing(house, options, batch):
    with house.client(ALONE, options=options) as client:
        client.send(*([parse("SELECT 1")] if batch else []), HIDDEN)
        said = house.outcome(client)
        assert isinstance(said, str) and ("cannot be proven" in said or "permission denied" in said), said


def test_a_role_that_postgres_itself_took_from_the_start_up_text_counts(house):
    with house.client(APP, options=f"-c role={READER}") as client:
        assert role(house.owner(client)) == READER


@pytest.mark.parametrize("end", [("c", b""), ("f", b"no\0")], ids=["CopyDone", "CopyFail"])
@pytest.mark.parametrize("login", [ALONE, APP])
def test_an_end_of_copy_too_early_forges_nothing(house, login, end):
    with house.client(login) as client:
        client.query("CREATE TEMP TABLE mine (n int)")
        client.send(parse("COPY mine FROM STDIN"), BIND, EXECUTE, end)
        client.send(SYNC)
        client.frames_to_ready()
        client.send(parse(FORGED), BIND, EXECUTE, SYNC, end)
        client.send(HIDDEN)
        said = house.outcome(client)
        assert isinstance(said, str) and ("permission denied" in said or "cannot be proven" in said), said


@pytest.mark.parametrize("count", [1, 3])
def test_queries_behind_the_last_message_of_the_log_in_forge_nothing(house, count):
    with scram_with_rest(house, ALONE, [query(FORGED)] * count) as client:
        client.send(HIDDEN)
        said = house.outcome(client)
        assert isinstance(said, str) and "permission denied" in said, said


@pytest.mark.parametrize("statement", [f"SET ROLE {READER}", f"SELECT set_config('role', '{READER}', false)"])
def test_a_subscribe_behind_an_unanswered_set_role_has_the_new_role(house, statement):
    with house.client(APP) as client:
        client.send(query(f"SET ROLE {BOSS}"))
        client.frames_to_ready()
        client.send(query("SELECT pg_sleep(0.3)"), query(statement), SHOWN)
        assert role(house.outcome(client)) == READER


def test_in_a_failed_transaction_it_is_refused_with_the_way_out_or_waits_for_it(house):
    with house.client(APP) as client:
        client.query(f"BEGIN; SET ROLE {BOSS}")
        client.query("SELECT 1/0")
        assert "ROLLBACK and subscribe again" in house.owner(client, HIDDEN)
        client.send(HIDDEN)
        client.send(query("ROLLBACK"))
        assert "permission denied" in house.outcome(client)


def test_in_a_batch_that_stays_open_it_is_refused_with_the_way_out(house):
    with house.client(APP) as client:
        client.send(parse(f"SET ROLE {READER}"), BIND, EXECUTE, ("H", b""), SHOWN)
        assert "send Sync, and subscribe again" in house.outcome(client)
        client.send(SYNC)
        client.frames_to_ready()
        assert role(house.owner(client)) == READER


def test_a_cancelled_question_leaves_nothing_believed(house):
    """The role goes from strong to weak, and the question for it is cancelled: the strong one never counts again."""
    with psycopg.connect(house.dsn_of(APP), autocommit=True) as keys, WireClient(house.dsn_of(APP)) as client:
        assert keys.info.backend_pid
        client.query(f"SET ROLE {BOSS}")
        assert role(house.owner(client)) == BOSS
        client.query(f"SET ROLE {READER}")
        stop = threading.Event()
        canceller = threading.Thread(target=lambda: cancel_until(stop, client))
        canceller.start()
        try:
            for _ in range(8):
                said = house.owner(client)
                assert role(said) == READER or "subscribe again" in said or "Rate limited" in said, said
                client.query(f"SET ROLE {READER}")
        finally:
            stop.set()
            canceller.join()


def cancel_until(stop, client):
    while not stop.is_set():
        client.cancel()
        time.sleep(0.001)


def test_in_a_transaction_the_role_is_proven_without_a_snapshot(house):
    with house.client(APP) as client, psycopg.connect(house.dsn, autocommit=True) as other:
        client.query(f"BEGIN; SET LOCAL ROLE {READER}")
        assert role(house.owner(client)) == READER
        assert [chr(one.type) for one in client.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")] == ["C", "Z"]
        other.execute("INSERT INTO shown VALUES (77, 'later')")
        assert rows(client.query("SELECT count(*) FROM shown WHERE id = 77")) == [(b"1",)]
        client.query("COMMIT")
        other.execute("DELETE FROM shown WHERE id = 77")
        assert role(house.owner(client)) == APP


def test_a_login_without_other_roles_is_itself(house):
    with house.client(ALONE) as client:
        owner = house.owner(client)
        assert (owner.login, owner.role) == (ALONE, ALONE)


def test_a_role_that_was_revoked_counts_no_longer(house):
    with house.client(APP) as client, psycopg.connect(house.dsn, autocommit=True) as other:
        client.query(f"SET ROLE {BOSS}")
        other.execute(f"REVOKE {BOSS} FROM {APP}")
        try:
            # An answer about roles is remembered for a few seconds.
            deadline = time.monotonic() + 30
            while not isinstance(found := house.owner(client, HIDDEN), str) and time.monotonic() < deadline:
                client.query("SELECT 1")
                time.sleep(0.2)
            assert "permission denied to set role" in found
        finally:
            other.execute(f"GRANT {BOSS} TO {APP}")


def test_a_superuser_subscribes_only_where_that_is_allowed(house):
    with house.client() as client:
        assert "TIDEWIRE_POSTGRES_SUPERUSERS_SUBSCRIBE" in house.owner(client)
        client.query(f"SET ROLE {READER}")
        assert role(house.owner(client)) == READER


def test_a_replication_connection_cannot_subscribe(house):
    with house.client(replication="database") as client:
        assert "replication connection cannot subscribe" in house.owner(client)
        assert rows(client.query("SELECT 1")) == [(b"1",)]


@pytest.mark.parametrize("transaction", ["", "BEGIN"])
@pytest.mark.parametrize(
    "sql", ["SELECT id FROM shown", "TABLE Shown", 'SELECT 1 FROM "shown" s', 'SELECT 1 FROM U&"sh\\006Fwn"']
)
def test_a_temporary_table_that_shadows_a_name_is_refused(house, transaction, sql):
    with house.client(ALONE) as client:
        client.query("CREATE TEMP TABLE shown (id int)")
        if transaction:
            client.query(transaction)
        assert "temporary table" in house.owner(client, Subscribe(sql))
        assert role(house.owner(client, Subscribe("SELECT 1"))) == ALONE


MADE = {
    "made": ("CREATE TEMP TABLE shown (id int)",),
    "made of a query": ("SELECT 1 AS id INTO TEMP shown",),
    "a view": ("CREATE TEMP VIEW shown AS SELECT 1 AS id",),
    "in a savepoint": ("SAVEPOINT s", "CREATE TEMP TABLE shown (id int)", "RELEASE s"),
    "by a function": ("DO $$ BEGIN CREATE TEMP TABLE shown (id int); END $$",),
    "renamed": ("ALTER TABLE before RENAME TO shown",),
}


@pytest.mark.parametrize("statements", MADE.values(), ids=MADE)
def test_a_temporary_table_of_the_transaction_itself_is_refused(house, statements):
    with house.client(ALONE) as client:
        client.query("CREATE TEMP TABLE before (id int)")
        client.query("BEGIN")
        assert role(house.owner(client)) == ALONE
        for statement in statements:
            client.query(statement)
        assert "temporary table" in house.owner(client)
        client.query("ROLLBACK")
        assert role(house.owner(client)) == ALONE


def test_an_ordinary_table_of_the_transaction_itself_hinders_nothing(house):
    with house.client(ALONE) as client:
        client.query("BEGIN; CREATE TABLE public.unborn (id int)")
        assert role(house.owner(client)) == ALONE
        assert "'unborn' does not exist" in house.owner(client, Subscribe("SELECT * FROM unborn"))
        client.query("ROLLBACK")


@pytest.mark.parametrize("made", ["CREATE DOMAIN pg_temp.note AS int", "CREATE TYPE pg_temp.note AS ENUM ('a')"])
def test_a_temporary_type_that_shadows_a_name_is_refused(house, made):
    with house.client(ALONE) as client:
        client.query("CREATE TEMP TABLE other (id int)")
        client.query(made)
        assert "temporary table" in house.owner(client, Subscribe("SELECT id::note FROM shown"))


def test_settings_are_those_that_were_proven(house):
    with house.client(ALONE, options="-c foo.b$-csearch_path=evil") as client:
        client.send(SHOWN)
        assert list(command(house).search_path) == [ALONE, "public"]
        client.query("SET search_path = a, public; SET bytea_output = escape")
        client.send(query("SET search_path = b, public"), SHOWN)
        subscribe = command(house)
        assert (list(subscribe.search_path), subscribe.text_settings.bytea_output) == (["b", "public"], "escape")


def test_what_mixes_its_messages_is_refused_for_the_rest_of_its_life(house):
    with house.client(ALONE) as client:
        client.send(parse("SELECT 1"), query("SELECT 2"), SYNC)
        client.frames_to_ready()
        client.frames_to_ready()
        assert "connect again to subscribe" in house.owner(client)
        client.query("SELECT 3")
        assert "connect again to subscribe" in house.owner(client)


def command(house):
    return house.command("subscribe").subscribe


class scram_with_rest(WireClient):
    """Logs in by hand, with messages behind its last one in the same write; the first answers are read."""

    def __init__(self, house, user, messages):
        import socket

        self._login = None
        self._framer = Framer(limit_bytes=1 << 30)
        self._socket = socket.create_connection(("127.0.0.1", house.door.port), timeout=30)
        fields = f"user\0{user}\0database\0{psycopg.conninfo.conninfo_to_dict(house.dsn)['dbname']}\0\0".encode()
        self._socket.sendall(struct.pack("!ii", len(fields) + 8, 196608) + fields)
        assert self.frame().type == ord("R")
        scram = Scram("x")
        first = scram.first()
        self.send(("p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
        challenge = self.frame().body[4:].decode()
        final = encode_frame(ord("p"), scram.final(challenge))
        self._socket.sendall(final + b"".join(encode_frame(ord(kind), body) for kind, body in messages))
        while self.frame().type != ord("Z"):
            pass

    def close(self):
        self._socket.close()


def test_refusals_are_about_this_session_alone(house):
    with house.client(ALONE) as unsure, house.client(ALONE) as well:
        unsure.send(parse("SELECT 1"), query("SELECT 2"), SYNC, SHOWN)
        assert isinstance(unsure.live(), Refused)
        assert role(house.owner(well)) == ALONE
