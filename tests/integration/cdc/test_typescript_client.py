"""The TypeScript client against a real gateway (issue 15): events, acks, a resnapshot, a gateway that dies."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest


class Tail:
    """`cdc-tail.js` as a process, and what it has printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def until(self, found: Callable[[dict[str, Any]], Any]) -> list[dict[str, Any]]:
        """The lines up to the first that it is."""
        lines = []
        assert self._process.stdout is not None
        for text in self._process.stdout:
            lines.append(json.loads(text))
            if found(lines[-1]):
                return lines
        raise AssertionError(f"it ended after {lines}: {self._process.communicate()[1]}")

    def rest(self) -> list[dict[str, Any]]:
        out, err = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, err
        return [json.loads(text) for text in out.splitlines()]

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def tail(cdc, npm_package):
    started: list[Tail] = []

    def start(subject: str | dict[str, Any], *numbers: int, door: int | None = None) -> Tail:
        words = [subject if isinstance(subject, str) else json.dumps(subject), *map(str, numbers)]
        token = cdc.service("typescript").headers["Authorization"].removeprefix("Bearer ")
        process = subprocess.Popen(
            ["node", "test/programs/cdc-tail.js", *words],
            cwd=npm_package.folder,
            env={
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "GATEWAY_URL": f"http://127.0.0.1:{door or cdc.doors[0]}",
                "GATEWAY_TOKEN": token,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(Tail(process))
        return started[-1]

    yield start
    for each in started:
        each.end()


def is_live(line: dict[str, Any]) -> bool:
    return line.get("state") == "live"


def events(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: line.get(name) for name in ("op", "pk", "after")} for line in lines if "seq" in line]


def wanted(cdc, table: str) -> dict[str, Any]:
    return {"db": cdc.database, "table": table, "include": {"after": True}, "format": "plain_json"}


def test_s22_another_process_goes_on_behind_what_was_acked(cdc, tail):
    table = cdc.table("id int PRIMARY KEY, name text")
    first = tail(wanted(cdc, table), 3, 2)
    [told, *_] = first.until(is_live)
    cdc.sql(f"INSERT INTO {table} SELECT n, 'Grüße ' || n FROM generate_series(1, 5) n")
    assert events(first.rest()) == [
        {"op": "insert", "pk": [n], "after": {"id": n, "name": f"Grüße {n}"}} for n in (1, 2, 3)
    ]
    assert [event["pk"] for event in events(tail(told["id"], 3).rest())] == [[3], [4], [5]]


def test_s37_a_resnapshot_is_told_and_cleared_by_an_ack(cdc, tail):
    table = cdc.table("id int PRIMARY KEY")
    reading = tail(wanted(cdc, table), 2)
    reading.until(is_live)
    cdc.sql(f"INSERT INTO {table} VALUES (1)")
    reading.until(lambda line: line.get("pk") == [1])
    cdc.sql(f"TRUNCATE {table}; INSERT INTO {table} VALUES (2)")
    lines = reading.rest()
    assert {"resnapshot": "truncated"} in lines
    assert [event["pk"] for event in events(lines)] == [[2]]


def test_s34_a_gateway_that_dies_costs_no_event(cdc, tail):
    port = cdc.start_gateway()
    table = cdc.table("id int PRIMARY KEY")
    reading = tail(wanted(cdc, table), 4, door=port)
    reading.until(is_live)
    cdc.sql(f"INSERT INTO {table} VALUES (1), (2)")
    reading.until(lambda line: line.get("pk") == [2])
    cdc.gateways[-1].kill()
    cdc.sql(f"INSERT INTO {table} VALUES (3), (4)")
    reading.until(lambda line: line.get("state") == "waiting")
    cdc.start_gateway(TIDEWIRE_GATEWAY_HTTP_PORT=str(port))
    assert [event["pk"] for event in events(reading.rest())] == [[3], [4]]
    cdc.gateways[-1].kill()


def test_a_lost_subscription_and_a_wrong_token_are_told(cdc, tail, npm_package):
    told = tail("sub_0000000000000000", 1).rest()
    assert told[-1]["code"] == "not_found"
    assert told[-1]["error"].endswith(": see that it exists and that you may use it")
    told = npm_package.node(
        "test/programs/cdc-tail.js",
        "sub_0",
        "1",
        environ={"GATEWAY_URL": f"http://127.0.0.1:{cdc.doors[0]}", "GATEWAY_TOKEN": "no.such.token"},
    )
    last = json.loads(told.splitlines()[-1])
    assert last["code"] == "unauthorized"
    assert last["error"].endswith("pass a token that this gateway accepts")
    assert "no.such.token" not in told
