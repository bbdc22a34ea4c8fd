"""Basic: PostgreSQL decides, and only where it asked for the password; guessing gets slower."""

import http.client
import threading

import psycopg
import pytest

from tests.fixtures.http_port import WHOAMI, answer_of, ask, basic, run_http_port
from tests.fixtures.http_roles import PASSWORD
from tests.fixtures.waiting import wait_until

REFUSED = "the credentials were refused"


def reasons(port):
    return [event["reason"] for event in port.events if event["event"] == "http_credentials_refused"]


@pytest.mark.parametrize(
    ("login", "password", "reason"),
    [
        ("alice", "wrong", "PostgreSQL refused the log-in"),
        ("alice", "", "user or password is empty or holds a NUL"),
        ("", PASSWORD, "user or password is empty or holds a NUL"),
        ("alice\0", PASSWORD, "user or password is empty or holds a NUL"),
        ("nobody", PASSWORD, "PostgreSQL refused the log-in"),
        ("retired", PASSWORD, "PostgreSQL refused the log-in"),
        ("expired", PASSWORD, "PostgreSQL refused the log-in"),
        ("trusted", PASSWORD, "PostgreSQL asked for no password"),
        ("trusted", "wrong", "PostgreSQL asked for no password"),
        ("root", PASSWORD, "superusers are not let in over HTTP"),
        ("alice user=root", PASSWORD, "PostgreSQL refused the log-in"),
    ],
    ids=repr,
)
def test_all_refusals_read_alike_and_the_log_alone_knows_why(http_port, login, password, reason):
    port = http_port()
    answer = port.basic(login, password)
    assert (answer.status, answer.code, answer.body["error"]["message"]) == (401, "unauthorized", REFUSED)
    assert reasons(port) == [reason]


@pytest.mark.parametrize(
    "header",
    ["Basic", "Basic !!!", "Basic YWxpY2U=", "Basic /w==", "Basic " + "A" * 5000, "Digest x"],
    ids=lambda h: h[:14],
)
def test_a_header_that_is_no_basic_credentials_is_refused(http_port, header):
    assert http_port().ask(headers={"Authorization": header}).status == 401


def test_two_sets_of_credentials_are_refused(http_port):
    port = http_port()
    header = basic("alice", PASSWORD)["Authorization"]
    connection = http.client.HTTPConnection("127.0.0.1", port.port, timeout=10)
    connection.putrequest("GET", "/api/v1/whoami")
    connection.putheader("Authorization", header)
    connection.putheader("Authorization", "Bearer x")
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


def test_the_gateway_s_own_password_is_not_lent_to_callers(http_database, monkeypatch, tmp_path):
    """Neither that of the DSN nor that of a password file."""
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:alice:{PASSWORD}\n")
    passfile.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with run_http_port(http_database.dsn) as port:
        assert [port.basic("alice", guess).status for guess in ("", "x")] == [401, 401]
        assert port.basic("alice", PASSWORD).status == 200


def test_a_caller_cannot_choose_the_database(http_database):
    """libpq's default database has the user's name: a DSN without one must not follow the caller."""
    with psycopg.connect(http_database.dsn, autocommit=True) as connection:
        connection.execute("CREATE DATABASE alice")
    dsn = psycopg.conninfo.conninfo_to_dict(http_database.dsn)
    dsn.pop("dbname")
    with run_http_port(psycopg.conninfo.make_conninfo(**dsn)) as port:
        assert port.basic("alice", PASSWORD).status == 200
        with psycopg.connect(http_database.dsn) as connection:
            connection.execute("SELECT pg_stat_clear_snapshot()")
            [[sessions]] = connection.execute(
                "SELECT sessions FROM pg_stat_database WHERE datname = 'alice'"
            ).fetchall()
    assert sessions == 0


def test_failures_of_an_address_are_delayed_longer_and_longer(http_port):
    port = http_port(free_failures=2, first_delay_s=100.0, longest_delay_s=150.0)
    statuses = [port.basic("alice", f"guess {number}").status for number in range(4)]
    delayed = port.basic("alice", "guess 5")
    assert statuses == [401, 401, 401, 429]
    assert (delayed.code, 95 < int(delayed.headers["retry-after"]) <= 101) == ("too_many_requests", True)


def test_postgresql_is_not_asked_while_an_address_waits(http_port, http_database):
    port, before = http_port(free_failures=0, first_delay_s=100.0), log_ins(http_database, "alice")
    port.basic("alice", "guess")
    assert (port.basic("alice", PASSWORD).status, log_ins(http_database, "alice")) == (429, before)


def test_a_password_accepted_before_goes_on_while_its_address_waits(http_port):
    """One who guesses behind the same router does not lock the others out."""
    port = http_port(free_failures=0, first_delay_s=100.0)
    assert port.basic("alice", PASSWORD).status == 200
    assert port.basic("worker", "guess").status == 401
    assert [port.basic("alice", PASSWORD).status, port.basic("worker", PASSWORD).status] == [200, 429]


def test_a_login_of_his_own_forgives_a_guesser_nothing(http_port):
    port = http_port(free_failures=2, first_delay_s=100.0, remember_login_s=0.0)
    tried = ["guess 1", PASSWORD, "guess 2", PASSWORD, "guess 3", "guess 4"]
    assert [port.basic("alice", each).status for each in tried] == [401, 200, 401, 200, 401, 429]


def test_the_right_password_of_a_role_that_is_not_let_in_looks_like_a_wrong_one(http_port):
    """Superusers, for one: else the delays would tell when the password was found."""
    tried = {}
    for password in (PASSWORD, "wrong"):
        port = http_port(free_failures=2, first_delay_s=100.0)
        tried[password] = [port.basic("root", password).status for _ in range(4)]
    assert tried == {PASSWORD: [401, 401, 401, 429], "wrong": [401, 401, 401, 429]}


def test_clients_of_a_trusted_proxy_are_told_apart_and_others_cannot_pretend(http_port):
    for proxies, statuses in (("127.0.0.1",), [401, 401, 429]), ((), [401, 429, 429]):
        port = http_port(free_failures=0, first_delay_s=100.0, trusted_proxies=proxies)
        answers = [
            port.basic("alice", "guess 1", **{"X-Forwarded-For": "192.0.2.1"}),
            port.basic("alice", "guess 2", **{"X-Forwarded-For": "192.0.2.2"}),
            port.basic("alice", "guess 3", **{"X-Forwarded-For": "192.0.2.1"}),
        ]
        assert [answer.status for answer in answers] == statuses


def test_guesses_in_parallel_do_not_pass_before_the_first_delay(http_port):
    """All of them reach the port in one turn of its loop, which is held until they are sent."""
    port, sent = http_port(free_failures=3, first_delay_s=100.0), threading.Event()
    connections = [http.client.HTTPConnection("127.0.0.1", port.port, timeout=30) for _ in range(40)]
    for connection in connections:
        connection.connect()
        connection.request("GET", "/nothing")
        answer_of(connection.getresponse())
    port.loop.call_soon_threadsafe(sent.wait)
    for number, connection in enumerate(connections):
        connection.request("GET", WHOAMI, headers=basic("alice", f"guess {number}"))
    sent.set()
    statuses = [answer_of(connection.getresponse()).status for connection in connections]
    for connection in connections:
        connection.close()
    assert (statuses.count(401), statuses.count(429)) == (4, 36)


def test_a_changed_password_counts_when_the_memory_of_the_old_one_ends(http_database):
    with (
        run_http_port(http_database.dsn, remember_login_s=0.5, free_failures=100) as port,
        psycopg.connect(http_database.dsn, autocommit=True) as connection,
    ):
        connection.execute("CREATE ROLE changing LOGIN PASSWORD 'old'")
        assert port.basic("changing", "old").status == 200
        connection.execute("ALTER ROLE changing PASSWORD 'new'")
        wait_until(lambda: port.basic("changing", "old").status == 401, "the old password refused", 10)
        assert port.basic("changing", "new").status == 200


@pytest.mark.parametrize("change", ["NOLOGIN", "VALID UNTIL '2020-01-01'", "SUPERUSER"])
def test_a_remembered_login_ends_with_its_role_s_right_to_log_in(http_database, change):
    with (
        run_http_port(http_database.dsn, remember_login_s=1000.0, remember_role_s=0.2) as port,
        psycopg.connect(http_database.dsn, autocommit=True) as connection,
    ):
        connection.execute("DROP ROLE IF EXISTS leaving")
        connection.execute("CREATE ROLE leaving LOGIN PASSWORD 'x'")
        assert port.basic("leaving", "x").status == 200
        connection.execute(f"ALTER ROLE leaving {change}")
        wait_until(lambda: port.basic("leaving", "x").status == 401, change, 10)


def test_a_dropped_role_is_nobody(http_database):
    with (
        run_http_port(http_database.dsn, remember_login_s=1000.0, remember_role_s=0.2) as port,
        psycopg.connect(http_database.dsn, autocommit=True) as connection,
    ):
        connection.execute("CREATE ROLE dropped LOGIN PASSWORD 'x'")
        assert port.basic("dropped", "x").status == 200
        connection.execute("DROP ROLE dropped")
        wait_until(lambda: port.basic("dropped", "x").status == 401, "the dropped role refused", 10)


def test_requests_that_come_together_ask_postgresql_once(http_port, http_database):
    port, before, statuses = http_port(), log_ins(http_database, "alice"), []
    threads = [
        threading.Thread(target=lambda: statuses.append(port.basic("alice", PASSWORD).status)) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 20
    wait_until(lambda: log_ins(http_database, "alice") > before, "the log-in in PostgreSQL's log")
    assert log_ins(http_database, "alice") == before + 1


def log_ins(server, user):
    log = (server.data.parent / "postgres.log").read_text()
    return log.count(f"connection authorized: user={user} database=")


def test_while_postgresql_is_away_nobody_is_refused_or_delayed(tmp_path, http_database):
    dsn = psycopg.conninfo.make_conninfo(http_database.dsn, port=1)
    with run_http_port(dsn, free_failures=0) as port:
        answers = [port.basic("alice", PASSWORD) for _ in range(3)]
        assert [(answer.status, answer.code) for answer in answers] == [(503, "unavailable")] * 3
        assert "127.0.0.1" not in str(answers[0].body) and "retry-after" in answers[0].headers


def test_no_event_and_no_answer_holds_a_password(http_port):
    port = http_port()
    answers = [
        port.basic("alice", PASSWORD),
        port.basic("alice", "hunter2-wrong"),
        port.ask("/api/v1/whoami?token=tok-secret"),
    ]
    ask(port.port, "/x?token=tok-secret&password=hunter2-wrong")
    wait_until(lambda: sum(event["event"] == "http_answered" for event in port.events) == 4, port.events)
    told = str(port.events) + str(answers)
    assert not any(secret in told for secret in (PASSWORD, "hunter2-wrong", "tok-secret"))
