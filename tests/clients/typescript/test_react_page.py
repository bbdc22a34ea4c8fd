"""`useLiveQuery` on a real React page in a real browser (issue 14), beside a gateway that does what the test says."""

from collections.abc import Iterator

import pytest

from tests.clients.scripted_gateway import ScriptedGateway, scripted_gateway
from tests.fixtures.waiting import wait_until

IDS = "window.shown?.ids"
STATE = "window.shown?.state"


@pytest.fixture(scope="module")
def script(npm_package) -> str:
    """The page's program in one file, as an application's bundler makes it."""
    npm_package.esbuild(
        *("test/page/app.jsx", "--bundle", "--outfile=app.js", "--jsx=automatic"),
        "--alias:@tidewire/client/react=./dist/react.js",
        '--define:process.env.NODE_ENV="development"',
    )
    return "app.js"


@pytest.fixture
def gateway(npm_package, script) -> Iterator[ScriptedGateway]:
    with scripted_gateway(npm_package, script, "q") as gateway:
        yield gateway


@pytest.fixture
def page(chromium, gateway):
    gateway("commit", {"inserted": [{"id": 1, "name": "Ada"}]})
    with chromium.page() as page:
        page.open(gateway.url)
        page.until(IDS, [1])
        yield page
        assert [fault for fault in page.faults if "WebSocket" not in fault and "Failed to load" not in fault] == []


def test_the_table_follows_the_query(gateway, page):
    gateway("commit", {"inserted": [{"id": 2, "name": "Jürgen"}]})
    page.until(IDS, [1, 2])
    gateway("commit", {"deleted": [{"id": 1, "name": "Ada"}]}, "overflow")
    page.until(IDS, [2])
    assert page.ask("document.querySelector('ul').textContent") == "Jürgen"
    # A page cannot set headers on a socket.
    assert gateway("state")["address"] == "/ws/q?token=page-token"


def test_it_comes_back_and_follows_another_gen(gateway, page):
    gateway("tear")
    gateway("commit", {"inserted": [{"id": 2, "name": "Zoë"}]}, "lost")
    page.until(IDS, [1, 2])
    gateway("register", [{"id": 9, "name": "new"}])
    page.until(IDS, [9])


def test_a_lost_right_is_told_once_and_the_last_rows_stay(gateway, page):
    gateway("close", 4003)
    page.until("window.shown.error", "no_longer_allowed")
    page.until(STATE, "ended")
    assert page.ask(IDS) == [1]


def test_a_refusal_before_the_upgrade_is_told_though_browsers_hide_it(gateway, page):
    gateway("refuse", 403)
    gateway("tear")
    page.until("window.shown.error", "refused_here")


def test_an_unmounted_table_leaves_no_socket(gateway, page):
    """StrictMode mounts twice: one socket of the two is closed at once."""
    wait_until(lambda: gateway("state")["open"] == 1, "one socket")
    page.ask("window.choose('')")
    wait_until(lambda: gateway("state")["open"] == 0, "no socket")


def test_another_query_begins_anew(gateway, page):
    page.ask("window.choose('unknown')")
    page.until("window.shown.error", "not_found")
    page.ask("window.choose('q')")
    page.until(IDS, [1])
    assert page.ask("window.shown.error") is None
