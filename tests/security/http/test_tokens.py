"""Tokens: what is not well signed, in time and for us is nobody; keys rotate."""

import base64
import hashlib
import hmac
import json
import time

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.fixtures.http_port import SECRET, run_http_port, token
from tests.fixtures.signing import document, ec_key, publish, rsa_key
from tests.fixtures.waiting import wait_until


def good(**more):
    return {"sub": "shop", "exp": time.time() + 60, **more}


def without(name, **more):
    return {key: value for key, value in good(**more).items() if key != name}


def encoded(value) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def by_hand(header, claims, key: bytes = SECRET.encode()) -> str:
    """A token that a library would not make: any header, signed as HS256."""
    signed = f"{encoded(header)}.{encoded(claims)}"
    return f"{signed}.{encoded(hmac.digest(key, signed.encode(), hashlib.sha256))}"


@pytest.fixture(scope="module")
def keys():
    return {"rsa": rsa_key(), "ec": ec_key()}


@pytest.fixture
def key_file(tmp_path, keys):
    path = tmp_path / "jwks.json"
    path.write_bytes(document(*(key.jwk() for key in keys.values())))
    return path


REFUSED_BY_SECRET = {
    "expired": lambda: token(good(exp=time.time() - 60)),
    "expired just beyond the leeway": lambda: token(good(exp=time.time() - 6)),
    "not valid yet": lambda: token(good(nbf=time.time() + 60)),
    "issued in the future": lambda: token(good(iat=time.time() + 60)),
    "without an expiry": lambda: token(without("exp")),
    "an expiry that is no number": lambda: by_hand({"alg": "HS256"}, good(exp="tomorrow")),
    "an expiry of infinity": lambda: by_hand({"alg": "HS256"}, b'{"sub":"x","exp":Infinity}'),
    "an expiry of NaN": lambda: by_hand({"alg": "HS256"}, b'{"sub":"x","exp":NaN}'),
    "without a subject": lambda: token(without("sub")),
    "an empty subject": lambda: token(good(sub="")),
    "a subject that is no text": lambda: by_hand({"alg": "HS256"}, good(sub=7)),
    "a database role that is no text": lambda: token(good(database_role=["alice"])),
    "an audience that nobody set": lambda: token(good(aud="elsewhere")),
    "another secret": lambda: token(good(), key="x" * 64),
    "no signature": lambda: token(good()).rpartition(".")[0] + ".",
    "alg none": lambda: f"{encoded({'alg': 'none', 'typ': 'JWT'})}.{encoded(good())}.",
    "alg none, signed": lambda: by_hand({"alg": "none"}, good()),
    "alg NONE": lambda: by_hand({"alg": "NONE"}, good()),
    "alg hs256 in small letters": lambda: by_hand({"alg": "hs256"}, good()),
    "no alg": lambda: by_hand({"typ": "JWT"}, good()),
    "HS512 with the right secret": lambda: token(good(), algorithm="HS512"),
    "critical extensions": lambda: by_hand({"alg": "HS256", "crit": ["exp"]}, good()),
    "an unencoded payload": lambda: by_hand({"alg": "HS256", "b64": False}, good()),
    "a key of its own": lambda: by_hand({"alg": "HS256", "jwk": {"kty": "oct", "k": "eA"}}, good(), b"x"),
    "a key id that is no text": lambda: by_hand({"alg": "HS256", "kid": {"a": 1}}, good()),
    "a header that is no object": lambda: by_hand([], good()),
    "a deep header": lambda: by_hand(b"[" * 3000, good()),
    "claims that are no object": lambda: by_hand({"alg": "HS256"}, [1]),
    "too long": lambda: token(good(padding="x" * 9000)),
    "nothing": lambda: "",
    "words": lambda: "a.b.c",
    "a role that does not exist": lambda: token(good(database_role="nobody")),
    "a role with a NUL": lambda: token(good(database_role="alice\0")),
    "a role that may not log in": lambda: token(good(database_role="retired")),
    "a role whose time is over": lambda: token(good(database_role="expired")),
    "a superuser": lambda: token(good(database_role="root")),
}


@pytest.mark.parametrize("make", REFUSED_BY_SECRET.values(), ids=REFUSED_BY_SECRET.keys())
def test_a_token_that_proves_nothing_is_refused(shared_port, make):
    answer = shared_port.bearer(make())
    assert (answer.status, answer.body["error"]["message"]) == (401, "the credentials were refused")


@pytest.fixture(scope="module")
def shared_port(http_database):
    with run_http_port(http_database.dsn) as port:
        assert port.bearer(token(good())).status == 200
        yield port


def test_a_clock_may_be_a_little_wrong(shared_port):
    assert shared_port.bearer(token(good(exp=time.time() - 2, nbf=time.time() - 9))).status == 200
    assert shared_port.bearer(token(good(nbf=time.time() + 2))).status == 200


def test_issuer_and_audience_are_checked_where_they_are_set(http_port):
    port = http_port(jwt_issuer="https://id.example", jwt_audience=("tidewire", "tidewire-test"))
    claims = {"right": {"iss": "https://id.example", "aud": ["other", "tidewire"]}}
    claims["no issuer"] = {"aud": "tidewire"}
    claims["another issuer"] = {"iss": "https://evil.example", "aud": "tidewire"}
    claims["no audience"] = {"iss": "https://id.example"}
    claims["another audience"] = {"iss": "https://id.example", "aud": "other"}
    statuses = {name: port.bearer(token(good(**more))).status for name, more in claims.items()}
    assert statuses == {name: 200 if name == "right" else 401 for name in claims}


@pytest.mark.parametrize("kind", ["rsa", "ec"])
def test_public_keys_of_a_file_verify(http_port, key_file, keys, kind):
    port = http_port(jwt_secret=None, jwks_file=str(key_file))
    assert port.bearer(keys[kind].token(good())).status == 200
    assert port.bearer(keys[kind].token(good(exp=time.time() - 60))).status == 401


def test_a_public_key_is_never_taken_for_a_secret(http_port, key_file, keys):
    """RS256 turned into HS256, signed with the text of the public key: with and without a secret configured."""
    forged = [
        by_hand({"alg": "HS256", "kid": key.key_id}, good(), material)
        for key in keys.values()
        for material in (key.pem, key.pem.strip(), json.dumps(key.jwk()).encode())
    ]
    for secret in (None, SECRET):
        port = http_port(jwt_secret=secret, jwks_file=str(key_file))
        assert [port.bearer(each).status for each in forged] == [401] * len(forged)


def test_a_key_verifies_its_own_algorithm_only(http_port, key_file, keys):
    port = http_port(jwks_file=str(key_file))
    mixed = [
        keys["rsa"].token(good(), kid="ec-1"),
        keys["ec"].token(good(), kid="rsa-1"),
        keys["rsa"].token(good(), kid="unknown"),
        by_hand({"alg": "HS256", "kid": "rsa-1"}, good(), b""),
        token(good(), key=keys["rsa"].private, algorithm="PS256", kid="rsa-1"),
        token(good(), key=keys["rsa"].private, algorithm="RS512", kid="rsa-1"),
    ]
    assert [port.bearer(each).status for each in mixed] == [401] * len(mixed)


def test_a_token_without_a_key_id_needs_the_only_key_of_its_kind(http_port, tmp_path):
    one, other = rsa_key(None), rsa_key("b")
    path = tmp_path / "jwks.json"
    path.write_bytes(document(one.jwk()))
    port = http_port(jwks_file=str(path))
    assert port.bearer(one.token(good())).status == 200
    path.write_bytes(document(one.jwk(), other.jwk()))
    assert port.bearer(one.token(good())).status == 401


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
@pytest.mark.parametrize(
    ("make", "entry"),
    [
        (lambda: rsa_key("k", 1024), lambda key: key.jwk()),
        (lambda: rsa_key("k"), lambda key: key.jwk(use="enc")),
        (lambda: rsa_key("k"), lambda key: key.jwk(alg="RS512")),
        (lambda: ec_key("k", ec.SECP384R1(), "ES384"), lambda key: key.jwk()),
        (lambda: rsa_key("k"), lambda key: {"kty": "oct", "kid": "k", "k": encoded(b"x" * 64)}),
        (lambda: rsa_key("k"), lambda key: {**key.jwk(), "n": "!"}),
        (lambda: rsa_key("k"), lambda key: "not an object"),
    ],
    ids=["1024 bits", "for encryption", "another algorithm", "another curve", "symmetric", "broken", "no object"],
)
def test_a_key_that_is_weak_or_for_something_else_verifies_nothing(http_port, tmp_path, make, entry):
    key = make()
    path = tmp_path / "jwks.json"
    path.write_bytes(document(entry(key)))
    port = http_port(jwt_secret=None, jwks_file=str(path))
    assert port.bearer(key.token(good())).status == 401
    assert port.bearer(by_hand({"alg": "HS256", "kid": "k"}, good(), b"x" * 64)).status == 401


def test_keys_of_a_file_rotate_with_the_file(http_port, tmp_path):
    old, new = rsa_key("old"), rsa_key("new")
    path = tmp_path / "jwks.json"
    path.write_bytes(document(old.jwk()))
    port = http_port(jwks_file=str(path))
    assert [port.bearer(key.token(good())).status for key in (old, new)] == [200, 401]
    path.write_bytes(document(new.jwk()))
    assert [port.bearer(key.token(good())).status for key in (old, new)] == [401, 200]


def test_a_file_that_is_gone_or_broken_lets_nobody_in(http_port, key_file, keys):
    port = http_port(jwks_file=str(key_file))
    key_file.write_text("{")
    assert port.bearer(keys["rsa"].token(good())).status == 503
    key_file.unlink()
    assert port.bearer(keys["rsa"].token(good())).status == 503
    assert port.bearer(token(good())).status == 200  # the secret needs no file


def test_keys_of_a_url_rotate(http_port):
    old, new = rsa_key("old"), ec_key("new")
    with publish() as publisher:
        publisher.body = document(old.jwk())
        port = http_port(jwks_url=publisher.url, jwks_refresh_s=0.1)
        assert port.bearer(old.token(good())).status == 200
        publisher.body = document(new.jwk())
        wait_until(lambda: port.bearer(new.token(good())).status == 200, "the new key", 10)
        wait_until(lambda: port.bearer(old.token(good())).status == 401, "the old key gone", 10)


def test_unknown_key_ids_do_not_make_us_ask_for_keys_again_and_again(http_port):
    key = rsa_key("known")
    with publish() as publisher:
        publisher.body = document(key.jwk())
        port = http_port(jwks_url=publisher.url)
        statuses = [port.bearer(key.token(good(), kid=f"made up {number}")).status for number in range(20)]
        assert (statuses, publisher.asked) == ([401] * 20, 1)


def test_keys_known_are_good_while_their_url_is_away(http_port):
    key = rsa_key()
    with publish() as publisher:
        publisher.body = document(key.jwk())
        port = http_port(jwks_url=publisher.url, jwks_refresh_s=5.0)
        assert port.bearer(key.token(good())).status == 200
        publisher.status = 500
        assert port.bearer(key.token(good())).status == 200


@pytest.mark.parametrize("fault", ["status", "redirect", "garbage", "too large"])
def test_a_url_that_gives_no_keys_lets_nobody_in(http_port, fault):
    key = rsa_key()
    with publish() as publisher, publish() as elsewhere:
        publisher.body = elsewhere.body = document(key.jwk())
        match fault:
            case "status":
                publisher.status = 500
            case "redirect":
                publisher.status, publisher.location = 302, elsewhere.url
            case "garbage":
                publisher.body = b"<html>"
            case "too large":
                publisher.body = document(key.jwk(), {"kty": "x", "pad": "x" * 300_000})
        port = http_port(jwks_url=publisher.url)
        answer = port.bearer(key.token(good()))
        assert (answer.status, answer.code, elsewhere.asked) == (503, "unavailable", 0)


def test_a_token_s_role_is_asked_about_again(http_database):
    with (
        run_http_port(http_database.dsn, remember_role_s=0.2) as port,
        psycopg.connect(http_database.dsn, autocommit=True) as connection,
    ):
        connection.execute("CREATE ROLE token_role LOGIN")
        held = token(good(database_role="token_role"))
        assert port.bearer(held).status == 200
        connection.execute("ALTER ROLE token_role NOLOGIN")
        wait_until(lambda: port.bearer(held).status == 401, "the role refused", 10)


def test_tokens_are_refused_where_none_can_be_verified(http_port):
    assert http_port(jwt_secret=None).bearer(token(good())).status == 401


def test_no_event_holds_a_token(http_port):
    port = http_port()
    held, forged = token(good()), token(good(), key="x" * 64)
    for each in (held, forged):
        port.bearer(each)
        port.ask(f"/api/v1/whoami?token={each}")
    wait_until(lambda: sum(event["event"] == "http_answered" for event in port.events) == 4, port.events)
    assert not any(part in str(port.events) for each in (held, forged) for part in each.split(".")[1:])
