"""The Python client's WebSocket, against a server that plays the gateway: lost connections, refusals, gaps (P35)."""

import json
import threading
from contextlib import contextmanager

import pytest
from tidewire.notify_socket import NotifyRefused, follow, messages
from tidewire.retry import Retry
from websockets.datastructures import Headers
from websockets.http11 import Response
from websockets.sync.server import serve

AT_ONCE = Retry(first_s=0.01, cap_s=0.02)
WELCOME = '{"type":"subscribed","query_id":"q"}'


class Gateway:
    """Each connection is told one script: texts, and then a close code; results are given one behind the other."""

    def __init__(self, scripts, results=()):
        self.scripts, self.results, self.tokens = list(scripts), list(results), []

    def talk(self, socket):
        self.tokens.append(socket.request.headers["Authorization"])
        *texts, code = self.scripts.pop(0)
        for text in texts:
            socket.send(text)
        socket.close(code)

    def answer(self, connection, request):
        """Results and refusals, before any upgrade."""
        if request.path.endswith("/result"):
            return self._json(*self.results.pop(0))
        if self.scripts and isinstance(self.scripts[0], int):
            return self._json(self.scripts.pop(0), {"error": {"code": "c", "message": "words of the gateway"}})
        return None

    @staticmethod
    def _json(status, body):
        text = json.dumps(body).encode()
        return Response(status, "x", Headers({"Content-Length": str(len(text)), "Connection": "close"}), text)


@contextmanager
def playing(scripts, results=()):
    gateway = Gateway(scripts, results)
    with serve(gateway.talk, "127.0.0.1", 0, process_request=gateway.answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        gateway.url = f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        yield gateway
        server.shutdown()
        thread.join()


def delta(seq, *ids, gen=1):
    return json.dumps(
        {"query_id": "q", "seq": seq, "gen": gen, "inserted": [{"id": one} for one in ids], "deleted": []}
    )


def result(seq, *ids, gen=1):
    return 200, {"query_id": "q", "gen": gen, "seq": seq, "rows": [{"id": one} for one in ids]}


def test_p35_the_rows_are_kept_through_lost_connections_and_refusals_that_pass():
    scripts = [[WELCOME, delta(6, 2), 4001], 503, [WELCOME, delta(9, 4), 1012], [WELCOME, delta(12, 6), 4003]]
    results = [result(5, 1), (503, {}), result(8, 1, 2, 3, gen=2), result(9, 7, gen=1), result(11, 5), result(12, 5, 6)]
    seen = []
    with playing(scripts, results) as gateway, pytest.raises(NotifyRefused, match="no longer") as refused:
        tokens = iter(["first", "second", "third", "fourth", *["later"] * 20])
        for rows in follow(gateway.url, "q", token=lambda: next(tokens), retry=AT_ONCE):
            seen.append((rows.gen, rows.seq, [row["id"] for row in rows.rows]))
    assert seen == [
        (1, 5, [1]), (1, 6, [1, 2]),  # then registered anew
        (2, 8, [1, 2, 3]), (1, 9, [7]),  # the delta was of another gen than the result
        (1, 11, [5]), (1, 12, [5, 6]),
    ]  # fmt: skip
    assert refused.value.status == 4003
    assert len(set(gateway.tokens)) == 3


@pytest.mark.parametrize("status", [401, 403, 404])
def test_p32_what_is_refused_ends_it_with_the_gateway_s_words(status):
    with playing([status]) as gateway, pytest.raises(NotifyRefused, match=f"{status}.*words of the gateway") as refused:
        next(messages(gateway.url, "q", token="secret-token", retry=AT_ONCE))
    assert refused.value.status == status
    assert "secret-token" not in str(refused.value)


def test_a_gateway_that_is_not_there_yet_is_waited_for():
    with playing([503, [WELCOME, 1000]]) as gateway:
        assert next(messages(gateway.url, "q", token="t", retry=AT_ONCE)) == WELCOME


def test_an_address_that_is_none_is_said_at_once():
    with pytest.raises(ValueError, match="begins with http"):
        next(messages("127.0.0.1:8081", "q", token="t"))
