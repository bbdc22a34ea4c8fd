"""The demo's page in a browser: the shop's live table by the CDC door, and nothing else of the gateway."""

import http.client
from urllib.parse import urlsplit

import psycopg
import pytest

from services.devstack import shop_feed, shop_page
from services.devstack.shop import REVENUE, open_shop
from tests.fixtures.http_port import token

TABLE = "[...document.querySelectorAll('#rows tr')].map(row => [...row.cells].map(cell => cell.textContent))"


@pytest.fixture(scope="module")
def shop(cdc):
    with psycopg.connect(cdc.captured.dsn, autocommit=True) as connection:
        open_shop(connection)
        shop_feed.grant(connection)
        yield connection
        connection.execute("DROP SCHEMA shop CASCADE")


@pytest.fixture(scope="module")
def address(cdc, shop):
    gateway = f"http://127.0.0.1:{cdc.doors[0]}"
    reader = token({"sub": "shop page", "database_role": shop_feed.ROLE, "exp": 2**31})
    with shop_page.serve(shop_feed.CdcFeed(gateway, reader), gateway, reader) as address:
        yield address


def answer(shop) -> list[list[str]]:
    return [[str(value) for value in row] for row in shop.execute(f"{REVENUE} ORDER BY 1").fetchall()]


def status(address: str, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_page_shows_what_postgresql_answers(chromium, shop, address):
    with chromium.page() as page:
        page.open(address)
        page.until(TABLE, answer(shop))
        page.until("document.getElementById('status').textContent", "live")
        shop.execute("UPDATE shop.orders SET status = 'cancelled' WHERE id = 2")
        shop.execute("UPDATE shop.items SET pieces = 9 WHERE order_id = 1")
        assert page.ask(TABLE) is not None
        page.until(TABLE, answer(shop))
        # Opened again, it begins with what is there now.
        page.open(address)
        page.until(TABLE, answer(shop))
        assert page.faults == []


def test_nothing_else_of_the_gateway_can_be_asked_through_it(address):
    refused = [status(address, path) for path in ("/api/v1/whoami", "/api/v1/cdc/sse/sub_1", "/../shop.py", "/x.js")]
    assert refused == [404, 404, 404, 404]
    assert status(address, "/feed.json", Host="evil.example") == 421
    assert status(address, "/feed.json", Origin="http://evil.example") == 403
    assert status(address, "/") == 200


def test_the_page_and_its_answers_carry_no_token(address):
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=30)
    told = b""
    for path in ("/", "/page.js", "/feed.json"):
        connection.request("GET", path)
        told += connection.getresponse().read()
    assert b"eyJ" not in told
