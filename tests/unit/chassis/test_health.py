"""Alive is not ready: readiness follows the loop's progress."""

import json
import threading
import urllib.error
import urllib.request

import pytest

from services.chassis.health import AddressRefused, Http, Progress, serve
from services.chassis.metrics import new_registry


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def progress(clock):
    return Progress(5.0, dead_after_s=60.0, clock=clock)


@pytest.fixture
def server(progress):
    server = serve(Http(), new_registry("test"), progress)
    yield server
    server.shutdown()
    server.server_close()


def get(server, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def verdict(server, path):
    status, body = get(server, path)
    return status, json.loads(body)["reason"]


def test_a_new_process_is_alive_and_not_ready(server):
    assert (verdict(server, "/healthz"), verdict(server, "/readyz")) == ((200, "alive"), (503, "starting"))


def test_a_loop_that_works_is_ready(server, progress):
    progress.beat()
    progress.ready()
    assert verdict(server, "/readyz") == (200, "ready")


def test_a_stalled_loop_turns_not_ready_though_the_process_lives(server, progress, clock):
    progress.ready()
    clock.now_s += 6
    assert verdict(server, "/readyz") == (503, "the loop has made no progress for 6.0 s")
    assert verdict(server, "/healthz") == (200, "alive")
    progress.beat()
    assert verdict(server, "/readyz") == (200, "ready")


def test_a_loop_that_turns_but_cannot_work_says_why(server, progress):
    progress.ready()
    progress.not_ready("Kafka does not answer")
    assert verdict(server, "/readyz") == (503, "Kafka does not answer")


def test_a_loop_silent_beyond_hope_is_dead(server, progress, clock):
    clock.now_s += 61
    assert verdict(server, "/healthz") == (503, "the loop has made no progress for 61.0 s")


def test_metrics_tell_the_build_and_the_process(server):
    status, text = get(server, "/metrics")
    assert status == 200
    assert 'tidewire_build_info{service="test",version="' in text
    assert "process_start_time_seconds" in text


def test_other_paths_are_not_found(server):
    assert get(server, "/")[0] == 404


def test_a_taken_port_is_refused_with_its_settings_named(server, progress):
    taken = Http(port=server.server_port)
    with pytest.raises(AddressRefused, match=rf"cannot listen on 127.0.0.1:{taken.port} .* TIDEWIRE_HTTP_PORT"):
        serve(taken, new_registry("test"), progress)


def test_a_loop_that_is_silent_for_too_long_is_told_of_once():
    progress, dead = Progress(0.05, dead_after_s=0.1), threading.Event()
    progress.beat()
    progress.watch(lambda reason: dead.set(), look_every_s=0.02)
    assert dead.wait(30)
    assert not progress.alive()[0]


def test_a_first_turn_may_take_longer_than_the_others(clock):
    progress = Progress(5.0, dead_after_s=60.0, start_within_s=300.0, clock=clock)
    clock.now_s += 200
    assert progress.alive()[0]
    progress.beat()
    clock.now_s += 61
    assert not progress.alive()[0]


def test_a_process_is_ready_when_each_of_its_parts_is(server, progress):
    first, second = progress.part("HTTP port"), progress.part("PG port")
    progress.ready()
    assert verdict(server, "/readyz") == (503, "HTTP port: starting; PG port: starting")
    first.ready()
    assert verdict(server, "/readyz") == (503, "PG port: starting")
    second.ready()
    assert verdict(server, "/readyz") == (200, "ready")
    first.not_ready("draining")
    progress.ready()  # one part's word does not overwrite another's
    assert verdict(server, "/readyz") == (503, "HTTP port: draining")
