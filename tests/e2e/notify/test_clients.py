"""Clients of the NOTIFY door on the whole stack: the TypeScript and Python ones, the command, and the demo's page."""

import json
import os
import subprocess
import sys

import pytest
from tidewire.notify_socket import NotifyRefused, follow

from services.devstack import shop, shop_feed, shop_page

pytestmark = pytest.mark.slow
TABLE = "[...document.querySelectorAll('#rows tr')].map(row => [...row.cells].map(cell => cell.textContent))"
# As a user would write it: the rows of each change, until there are none.
LIVE = """
import { live } from "./dist/index.js";
const { GATEWAY_URL, GATEWAY_TOKEN } = process.env;
const query = live(GATEWAY_URL, process.argv[2], { token: GATEWAY_TOKEN, parseRow: (text) => text });
for await (const { rows, inserted, deleted, gen } of query) {
  console.log(JSON.stringify({ rows: [...rows].sort(), inserted, deleted, gen }));
  if (rows.includes('{"id":0}')) break;
}
"""


def environ(door, **claims):
    bearer = door.headers(**claims)["Authorization"].removeprefix("Bearer ")
    return {"GATEWAY_URL": f"http://127.0.0.1:{door.port}", "GATEWAY_TOKEN": bearer}


class Reading:
    """A program that prints a JSON object a line."""

    def __init__(self, command, cwd, variables):
        self._process = subprocess.Popen(
            command, cwd=cwd, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def line(self):
        said = self._process.stdout.readline()
        assert said, self._process.stderr.read()
        return said.rstrip("\n")

    def until(self, is_wanted):
        return next(found for found in map(json.loads, iter(self.line, None)) if is_wanted(found))

    def end(self):
        """What it printed last, and its status."""
        rest, errors = self._process.communicate(timeout=60)
        return rest, errors, self._process.returncode


@pytest.fixture
def numbers(door):
    table = door.name()
    door.sql(f"CREATE TABLE {table} (id numeric PRIMARY KEY)", f"INSERT INTO {table} VALUES (1)")
    return table


def test_p35_the_typescript_client_keeps_the_rows(door, numbers, npm_package, tmp_path):
    """P35: deltas, an overflow, another registration, and PostgreSQL's own digits."""
    name, gen = door.register(f"SELECT id FROM {numbers}")
    (npm_package.folder / "live.mjs").write_text(LIVE)
    path = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    reading = Reading(["node", "live.mjs", name], npm_package.folder, environ(door) | path)
    assert reading.until(lambda one: True)["rows"] == ['{"id":1}']
    door.sql(f"INSERT INTO {numbers} VALUES (1.10000000000000000001)")
    found = reading.until(lambda one: len(one["rows"]) == 2)
    assert (found["inserted"], found["deleted"], found["gen"]) == (['{"id":1.10000000000000000001}'], [], gen)
    door.sql(f"INSERT INTO {numbers} SELECT 1000 + i FROM generate_series(1, 2000) i")
    assert len(reading.until(lambda one: len(one["rows"]) == 2002)["inserted"]) == 2000
    door.register(f"SELECT id FROM {numbers} WHERE id < 1000", name=name)
    found = reading.until(lambda one: len(one["rows"]) == 2)
    assert found["gen"] > gen and len(found["deleted"]) == 2000
    door.sql(f"INSERT INTO {numbers} VALUES (0)")
    assert reading.until(lambda one: '{"id":0}' in one["rows"])["deleted"] == []
    assert reading.end()[2] == 0


def test_p35_the_python_client_keeps_the_rows_through_a_killed_gateway(door, numbers):
    """P35: the set stays, and is fetched again behind the welcome of the next connection."""
    name, _ = door.register(f"SELECT id FROM {numbers}")
    variables = environ(door)
    states = follow(variables["GATEWAY_URL"], name, token=variables["GATEWAY_TOKEN"])

    def until(*wanted):
        for rows in states:
            if sorted(int(row["id"]) for row in rows.rows) == list(wanted):
                return
        raise AssertionError("it never ends")

    until(1)
    door.sql(f"INSERT INTO {numbers} VALUES (2)")
    until(1, 2)
    door.stack.kill("gateway")
    door.sql(f"DELETE FROM {numbers} WHERE id = 1", f"INSERT INTO {numbers} VALUES (3)")
    door.stack.start("gateway")
    until(2, 3)
    door.sql(f"SELECT pgr.unsubscribe('{name}')")
    with pytest.raises(NotifyRefused, match="no such query"):
        until()
    states.close()


def tail(door, *arguments, **claims):
    command = [sys.executable, "-m", "services.cli", "notify", "tail", *arguments]
    return Reading(command, None, os.environ | environ(door, **claims))


def test_tidewire_notify_tail_prints_the_messages_as_they_came(door, numbers):
    name, gen = door.register(f"SELECT id FROM {numbers}")
    reading = tail(door, name, "--messages", "3")
    assert reading.line() == f'{{"type":"subscribed","query_id":"{name}"}}'
    seq = door.result(name).body["seq"]
    for number in (2, 3):
        door.sql(f"INSERT INTO {numbers} VALUES ({number})")
        told = (
            f'{{"query_id":"{name}","seq":{seq + number - 1},"gen":{gen},"inserted":[{{"id":{number}}}],"deleted":[]}}'
        )
        assert reading.line() == told
    assert reading.end() == ("", "", 0)
    rest, words, status = tail(door, "no_such_query").end()
    assert (rest, words, status) == ("", "the gateway refused (404): no such query is registered\n", 2)


def test_the_demo_s_page_follows_the_door(door, chromium):
    """Registered by the demo, and read through the page's own server with a token of the page's role."""
    shop.open_shop(door.direct)
    shop_feed.grant(door.direct)
    door.sql(
        "INSERT INTO shop.orders VALUES (1001, 1, 'paid'), (1002, 2, 'new')",
        "INSERT INTO shop.items VALUES (1001, 1, 2), (1001, 3, 1), (1002, 1, 1)",
    )
    variables = environ(door, sub="shop page", database_role=shop_feed.ROLE)
    feed = shop_feed.open_feed(door.direct, variables["GATEWAY_URL"], variables["GATEWAY_TOKEN"])
    assert feed.described() == {"door": "notify", "query_id": shop_feed.QUERY_ID}
    with shop_page.serve(feed, *variables.values()) as address, chromium.page() as page:
        page.open(address)
        for change in (
            "UPDATE shop.orders SET status = 'paid' WHERE id = 1002",
            "DELETE FROM shop.orders WHERE id = 1001",
        ):
            wanted = revenue(door)
            assert wanted
            page.until(TABLE, wanted)
            door.sql(change)
        page.until(TABLE, revenue(door))
    door.sql(f"DROP OWNED BY {shop_feed.ROLE}", f"DROP ROLE {shop_feed.ROLE}")


def revenue(door):
    """As the page shows it."""
    return [[str(value) for value in row] for row in door.sql(f"SELECT * FROM ({shop.REVENUE}) r ORDER BY category")]
