"""What the embedded stack remembers between its runs, and how long it waits before trying again."""

import socket
import subprocess
import sys

from services.devstack import state
from services.devstack.child import pause_s
from services.devstack.ports import Ports, free_port
from services.devstack.service import Declaration


def test_a_stack_keeps_its_port(tmp_path):
    first = Ports(tmp_path / "ports.json").take("kafka", None, "")
    assert Ports(tmp_path / "ports.json").take("kafka", None, "") == first


def test_a_stack_takes_another_port_when_its_own_was_taken(tmp_path):
    first = Ports(tmp_path / "ports.json").take("kafka", None, "")
    with socket.create_server(("127.0.0.1", first)):
        assert Ports(tmp_path / "ports.json").take("kafka", None, "") != first


def test_a_port_that_the_user_fixed_goes_before_the_remembered_one(tmp_path):
    Ports(tmp_path / "ports.json").take("kafka", None, "")
    fixed = free_port()
    assert Ports(tmp_path / "ports.json").take("kafka", fixed, "") == fixed


def test_pauses_double_from_a_fifth_of_a_second_to_ten_seconds():
    assert [pause_s(failures) for failures in (0, 1, 2, 5, 6, 1000)] == [0.2, 0.4, 0.8, 6.4, 10.0, 10.0]


def test_the_lock_names_its_holder_until_that_process_ends(tmp_path):
    path = tmp_path / "lock"
    steps = ("import sys, pathlib", "from services.devstack import state", "state.lock(pathlib.Path(sys.argv[1]))")
    program = "; ".join((*steps, "print(flush=True)", "input()"))
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert (state.holder(path), state.lock(path)) == (process.pid, None)
        process.kill()
        process.wait()
        assert state.holder(path) is None


def test_a_service_that_is_not_written_yet_is_left_out():
    assert not Declaration("nonesuch", (), ()).exists()
