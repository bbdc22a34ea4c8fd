"""Connection strings as libpq reads them, and what of them is refused."""

import struct

import pytest
from tidewire.address import BadAddress, parse
from tidewire.errors import LogInRefused
from tidewire.frames import Frame
from tidewire.login import log_in


def test_a_uri_and_pairs_say_the_same():
    uri = parse(
        "postgresql://ann:s%40cret@[::1]:5433/app?sslmode=verify-full&sslrootcert=system&options=-c%20a%3Db", {}
    )
    pairs = parse(
        r"host=::1 port=5433 user=ann password='s@cret' dbname=app sslmode=verify-full sslrootcert=system "
        r"options='-c a=b'",
        {},
    )
    assert uri == pairs
    assert (uri.hosts, uri.password, uri.database) == ((("::1", 5433),), "s@cret", "app")
    assert uri.start_up == {
        "user": "ann",
        "database": "app",
        "application_name": "tidewire",
        "options": "-c a=b",
        "tidewire.messages": "F2,F3,F4,F7",
        "tidewire.key": "on",
        "client_encoding": "UTF8",
    }


def test_quotes_and_backslashes_in_pairs():
    assert parse(r"user=me password = 'it\'s \\ here' host=/run/pg", {}).password == r"it's \ here"


def test_what_is_not_said_comes_from_the_environment():
    environ = {"PGHOST": "db", "PGPORT": "7000", "PGUSER": "eve", "PGPASSWORD": "x", "PGSSLMODE": "require"}
    found = parse("postgresql:///app", environ)
    assert (found.hosts, found.user, found.password, found.sslmode) == ((("db", 7000),), "eve", "x", "require")
    assert parse("host=other user=ann", environ).hosts == (("other", 7000),)


def test_several_hosts_have_one_port_or_one_each():
    assert parse("postgresql://u@a,b:5433/d", {}).hosts == (("a", 5432), ("b", 5433))
    assert parse("host=a,b port=6000 user=u", {}).hosts == (("a", 6000), ("b", 6000))


def test_a_password_is_not_printed():
    assert "secret" not in repr(parse("postgresql://u:secret@h/d", {}))


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("nonsense", "no connection string"),
        ("postgresql://u@h:99999/d", "from 1 to 65535"),
        ("host=a,b,c port=1,2 user=u", "as many as hosts"),
        ("host=h user=u sslmode=maybe", "none of disable, allow"),
        ("host=h user=u require_auth=scram-sha-256", "require_auth: not understood"),
        ("host=h user=u connect_timeout=soon", "number of seconds"),
    ],
)
def test_what_cannot_be_understood_is_refused_by_name(dsn, words):
    with pytest.raises(BadAddress, match=words):
        parse(dsn, {})


@pytest.mark.parametrize(
    ("method", "words"), [(7, "GSSAPI"), (9, "SSPI"), (2, "Kerberos V5"), (99, "method 99"), (11, "method 11")]
)
def test_a_log_in_that_we_do_not_speak_is_refused_by_name(method, words):
    steps = log_in(parse("postgresql://u:p@h/d", {}), None)
    next(steps)
    with pytest.raises(LogInRefused, match=f"asks for {words}: let pg_hba.conf say scram-sha-256"):
        steps.send(Frame(ord("R"), struct.pack("!i", method)))


def test_a_server_that_breaks_off_scram_is_not_believed():
    steps = log_in(parse("postgresql://u:p@h/d", {}), None)
    next(steps)
    assert b"SCRAM-SHA-256" in steps.send(Frame(ord("R"), struct.pack("!i", 10) + b"SCRAM-SHA-256\0\0"))
    with pytest.raises(LogInRefused, match="without proving"):
        steps.send(Frame(ord("R"), struct.pack("!i", 0)))


def test_only_an_unknown_mechanism_is_refused():
    steps = log_in(parse("postgresql://u:p@h/d", {}), None)
    next(steps)
    with pytest.raises(LogInRefused, match="offers OAUTHBEARER, and we speak SCRAM-SHA-256"):
        steps.send(Frame(ord("R"), struct.pack("!i", 10) + b"OAUTHBEARER\0\0"))
