"""An answer counts only if it is the answer to that very question (issue 10, A)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.identity_question import SETTINGS, IdentityQuestion, Unprovable, askable, shadowing
from services.gateway.core.principal import Principal
from services.sqlguard.meaning import BROUGHT

VALUES = (b"none", b"public", b"hex", b"1", b"UTC", b"ISO, MDY", b"postgres", b"UTF8", b"on", *(b"" for _ in BROUGHT))
NONCE = "abc123"


def idle_row(nonce=b"abc123", own=()):
    return (nonce, b"login", *VALUES, b"db", b'["t"]', b'["pgr"]', *own)


def test_the_answer_outside_of_a_transaction():
    facts = IdentityQuestion(NONCE, False, ("app.a", "app.b")).read([idle_row(own=(b"5", None))])
    assert (facts.login, facts.role, facts.database, facts.temporaries) == ("login", "login", "db", frozenset("t"))
    assert facts.channels == frozenset({"pgr"})
    assert (facts.settings["app.a"], facts.asked) == ("5", frozenset({"app.a", "app.b"}))


def test_the_answer_inside_of_one_is_a_row_for_each_show():
    proof = IdentityQuestion(NONCE, True)
    rows = [(NONCE.encode(),), (b"login",), (b"boss",), *((value,) for value in VALUES[1:])]
    assert len(proof.statements) == len(rows) + 1
    facts = proof.read(rows)
    assert (facts.login, facts.role, facts.temporaries) == ("login", "boss", None)


@given(st.lists(st.lists(st.none() | st.binary(max_size=20), max_size=24).map(tuple), max_size=22), st.booleans())
def test_rows_of_somebody_else_are_no_answer(rows, in_transaction):
    assert IdentityQuestion("6e6f6e6365" * 3, in_transaction).read(rows) is None


@pytest.mark.parametrize(
    "rows",
    [[], [idle_row(b"other")], [idle_row(), idle_row()], [idle_row()[:-1]], [(b"x",), idle_row()], [idle_row(None)]],
)
def test_a_wrong_shape_or_nonce_is_no_answer(rows):
    assert IdentityQuestion(NONCE, False).read(rows) is None


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (2 + SETTINGS.index("client_encoding"), b"LATIN1"),
        (2 + SETTINGS.index("standard_conforming_strings"), b"off"),
        (1, b"\xff"),
        (3, b"x" * 9000),
    ],
)
def test_what_cannot_be_used_is_said_in_words(at, value):
    row = list(idle_row())
    row[at] = value
    with pytest.raises(Unprovable):
        IdentityQuestion(NONCE, False).read([tuple(row)])


def test_only_plain_names_are_asked_for():
    assert askable(("app.tenant", "a.b'c", "a\\'", "x.y.z", "", "é.b", "a b", "role")) == (
        "app.tenant",
        "x.y.z",
        "role",
    )


def test_a_temporary_name_is_found_wherever_it_stands():
    sql = 'SELECT * FROM "My Table" m JOIN public.Orders, "a""b"'
    for name in ("My Table", "orders", "Orders", 'a"b'):
        assert shadowing(frozenset({name}), sql) == name
    assert shadowing(frozenset({"other", "tab", "order"}), sql) is None


@pytest.mark.parametrize("name", ["x" * 63, "é" * 31, "a b" * 21])
def test_a_temporary_name_is_found_where_postgres_cuts_what_is_written(name):
    assert shadowing(frozenset({name}), f'SELECT * FROM "{name}z"') == name
    assert shadowing(frozenset({name}), f"SELECT * FROM {name.upper()}_and_more") == name


def test_a_name_that_is_spelt_by_code_points_may_be_any():
    assert shadowing(frozenset({"orders"}), 'SELECT * FROM U&"\\006Frders"') == "orders"
    assert shadowing(frozenset(), 'SELECT * FROM U&"\\006Frders"') is None


@pytest.mark.parametrize(
    ("path", "schemas"),
    [
        ('"$user", public', ["r", "public"]),
        ("A, b", ["a", "b"]),
        ('"A ""b""", c', ['A "b"', "c"]),
        ('"a,b"', ["a,b"]),
        ("", ["r", "public"]),
        (" , ,a", ["a"]),
        ('a, "b', ["a", "b"]),
    ],
)
def test_the_search_path_is_read_as_postgres_does(path, schemas):
    assert Principal("c", "r", "d", {"search_path": path}).search_path == schemas
