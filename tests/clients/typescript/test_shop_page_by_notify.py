"""The demo's page by the NOTIFY door's wire contract: a WebSocket through its own server, which adds the token."""

import secrets

import psycopg
import pytest

from services.devstack import shop_feed, shop_page
from services.devstack.shop import REVENUE
from tests.clients.scripted_gateway import scripted_gateway

TABLE = "[...document.querySelectorAll('#rows tr')].map(row => [...row.cells].map(cell => cell.textContent))"
# As far as the page's server asks for it; the door's own tests have the real ones.
FUNCTIONS = """
CREATE SCHEMA pgr;
CREATE TABLE pgr.registered (query_id text, query text);
CREATE FUNCTION pgr.subscription_meta(query_id text) RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';
CREATE FUNCTION pgr.subscribe(p_query_id text, p_query text, p_mode text DEFAULT 'delta', p_audience jsonb DEFAULT NULL)
RETURNS jsonb LANGUAGE sql AS 'INSERT INTO pgr.registered VALUES ($1, $2); SELECT NULL::jsonb';
"""


@pytest.fixture
def connection(postgres_server):
    name = f"shop_{secrets.token_hex(5)}"
    with psycopg.connect(postgres_server.create_database(name), autocommit=True) as connection:
        connection.execute(FUNCTIONS)
        yield connection
    postgres_server.drop_database(name)


def test_the_page_follows_the_door_with_postgresql_s_digits(connection, npm_package, chromium):
    tea, china = {"category": "tea", "pieces": 2, "revenue": 9.5}, {"category": "china", "pieces": 1, "revenue": 12}
    with scripted_gateway(npm_package, "package.json", "shop_revenue") as gateway:
        gateway("commit", {"inserted": [tea]})
        feed = shop_feed.open_feed(connection, gateway.url, "the-token")
        assert connection.execute("TABLE pgr.registered").fetchall() == [("shop_revenue", REVENUE)]
        with shop_page.serve(feed, gateway.url, "the-token") as address, chromium.page() as page:
            page.open(address)
            page.until(TABLE, [["tea", "2", "9.5"]])
            gateway("commit", {"inserted": [china]})
            page.until(TABLE, [["china", "1", "12"], ["tea", "2", "9.5"]])
            assert gateway("state")["credentials"] == "Bearer the-token"
            gateway("tear")
            gateway("commit", {"deleted": [tea]}, "lost")
            page.until(TABLE, [["china", "1", "12"]])
