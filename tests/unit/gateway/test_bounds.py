"""What a subscribe request may hold, told before anything reads it."""

import pytest

from services.gateway.core.bounds import Bounds
from services.gateway.core.requests import SubscribeRequest
from services.gateway.errors import SubscribeRefused


@pytest.mark.parametrize(
    ("subscribe", "words"),
    [
        (SubscribeRequest("SELECT $1, $2", (b"a", b"\xff")), "Parse error: parameter $2 is not UTF-8"),
        (SubscribeRequest("SELECT $1", ("é".encode("latin-1"),)), "Parse error: parameter $1 is not UTF-8"),
        (SubscribeRequest("SELECT $1", (b"\xed\xa0\x80",)), "Parse error: parameter $1 is not UTF-8"),
        (SubscribeRequest("SELECT $1", (b"a\0b",)), "Parse error: parameter $1 holds a NUL byte"),
        (SubscribeRequest("SELECT 1", (), "a = '\0'"), "Filter parse error: the filter holds a NUL byte"),
    ],
    ids=repr,
)
def test_text_that_postgresql_cannot_take_is_refused_in_a_sentence(subscribe, words):
    with pytest.raises(SubscribeRefused) as refused:
        Bounds().refuse_size(subscribe)
    assert refused.value.message.startswith(words)


def test_every_text_and_null_is_taken():
    request = SubscribeRequest("SELECT $1, $2, $3", ("é𝄞\x01".encode(), None, b""), "a = 'ß'")
    assert Bounds().refuse_size(request) is None
