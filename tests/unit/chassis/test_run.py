"""Real processes: what they say and with which code they end."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from services.chassis.run import Stop

ROOT = Path(__file__).parents[3]
SETTINGS = {"TIDEWIRE_HTTP_PORT": "0"}


@pytest.fixture
def start():
    processes = []

    def launch(*arguments, environ=SETTINGS):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TIDEWIRE_")}
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("process.py")), *arguments],
            env=inherited | {"PYTHONPATH": str(ROOT)} | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield launch
    for process in processes:
        process.kill()
        process.communicate()


def end(process):
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("behaviour", ["loop", "loop_async"])
def test_a_signal_ends_the_loop_from_within_and_the_code_is_zero(start, behaviour, number):
    process = start(behaviour)
    assert process.stdout.readline() == "turning\n"
    process.send_signal(number)
    assert end(process) == (0, "left the loop\n", "")


def test_a_signal_before_the_loop_ends_the_process_with_zero_too(start):
    process = start("slow_start")
    assert process.stdout.readline() == "turning\n"
    process.send_signal(signal.SIGTERM)
    assert end(process) == (0, "", "")


@pytest.mark.parametrize(
    ("behaviour", "code", "sentence"),
    [
        ("unlucky", 1, "toy: the moon is full: wait\n"),
        ("fail_async", 2, "toy: the table is on fire: put it out\n"),
    ],
)
def test_an_error_with_a_plan_is_one_sentence_and_a_code(start, behaviour, code, sentence):
    assert end(start(behaviour)) == (code, "", sentence)


def test_an_error_without_a_plan_keeps_its_traceback(start):
    code, _, errors = end(start("broken"))
    assert (code, errors.splitlines()[0], errors.splitlines()[-1]) == (
        1,
        "Traceback (most recent call last):",
        "ZeroDivisionError",
    )


def test_an_unknown_setting_ends_with_two_and_names_itself(start):
    process = start("loop", environ={"TIDEWIRE_HTTP_PROT": "1"})
    assert end(process) == (2, "", "toy: unknown setting TIDEWIRE_HTTP_PROT: did you mean TIDEWIRE_HTTP_PORT?\n")


def test_help_describes_the_settings(start):
    code, output, _ = end(start("loop", "--help", environ={}))
    assert (code, "python -m services.toy" in output, "TIDEWIRE_HTTP_PORT" in output) == (0, True, True)


def test_a_stop_asked_for_by_another_thread_wakes_the_waiting_one():
    stop = Stop()
    threading.Timer(0.05, stop.request).start()
    assert (stop.requested, stop.wait(30), stop.requested, stop.wait(0)) == (False, True, True, True)
