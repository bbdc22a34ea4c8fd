"""The administrators' page in headless Chromium (S43): a subscription's life, a thousand of them, who can use it.

With ADMIN_SCREENSHOTS=1 the pictures of docs/admin are made anew; else they go to the test's own folder.
"""

import os
from pathlib import Path

import pytest

from tests.fixtures.waiting import wait_until
from tests.integration.admin.browser import browser

DOCS = Path(__file__).parents[3] / "docs" / "admin"
MANY = 1_000
VIEWS = ("overview", "queries", "subscriptions", "tables")
SHOWN = ("overview-light", "overview-dark", "subscriptions-dark")


@pytest.fixture(scope="module")
def page(house):
    with browser() as page:
        yield page


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return DOCS if "ADMIN_SCREENSHOTS" in os.environ else tmp_path_factory.mktemp("pictures")


def signed_in(house, page):
    page.do("open", url=f"http://127.0.0.1:{house.door}/admin")
    page.click("Token")
    page.fill("Token", house.token())
    page.click("Sign in")
    page.see("Road of a commit")


def expect_quiet(page, *allowed):
    """Nothing was blocked by the policy, and no script failed."""
    found = [text for text in page.do("complaints") if not any(word in text for word in allowed)]
    assert found == []


def test_who_may_not_is_told_and_nothing_is_kept_of_who_may(house, page, pictures):
    """S43: no token in addresses, storage or cookies; a reload asks again."""
    page.do("open", url=f"http://127.0.0.1:{house.door}/admin")
    page.do("shot", path=str(pictures / "sign-in.png"))
    assert page.serious() == []
    page.click("Token")
    page.fill("Token", "no token")
    page.click("Sign in")
    page.see("These credentials were refused.")
    page.fill("Token", house.token("service"))
    page.click("Sign in")
    page.see("for the service roles dba and system")
    expect_quiet(page, "401", "403")
    page.do("requests")
    signed_in(house, page)
    page.see("processes ready")
    kept = page.do(
        "run", code="JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
    )
    asked = page.do("requests")
    secret = house.token().split(".")[0]
    assert secret not in kept and not any(secret in one["url"] or "token" in one["url"] for one in asked)
    assert page.do("cookies") == []
    page.do("open", url=f"http://127.0.0.1:{house.door}/admin")
    page.see("Nothing is stored")
    expect_quiet(page)


def test_empty_views_say_what_to_do(house, page, pictures):
    signed_in(house, page)
    page.go("queries")
    page.fill("Search", "no query has this")
    wait_until(lambda: "No " in " ".join(page.texts(".empty")), page.words)
    page.do("shot", path=str(pictures / "empty.png"))
    assert page.serious() == []
    expect_quiet(page)


def test_the_life_of_a_subscription_from_the_page(house, page, pictures):
    """S43: create, tail, pause, watch the lag rise, resume, poll, ack, close."""
    table = house.table("orders")
    signed_in(house, page)
    page.go("subscriptions")
    page.fill("New subscription of a table", "no_such_table")
    page.click("Subscribe")
    page.see("table not found")
    page.fill("New subscription of a table", table)
    page.click("Subscribe")
    page.see("Nothing to show yet")
    sub_id = page.do("run", code="location.hash.split('/')[2]")
    page.click("Live tail")
    page.see("The tail is open")
    house.sql(f"INSERT INTO {table} VALUES (1, 'first'), (2, '<b>bold</b> & more')")
    page.see('"note":"first"')
    page.see("<b>bold</b> & more")
    page.click("Pause")
    page.see("It is paused")
    page.wait_tile("state", lambda text: text == "paused", "it is paused")
    house.insert(table, 150)
    page.wait_tile("events behind", lambda text: int(text) >= 152, "its lag rises")
    page.do("shot", path=str(pictures / "subscription.png"))
    assert page.serious() == []
    page.click("Resume")
    page.see("It goes on.")
    page.click("Poll")
    page.see("100 events; the next offset is")
    page.click("Ack")
    page.see("whether it has read them or not")
    assert page.serious() == []
    page.do("press", key="Escape")
    page.click("Ack")
    page.do("run", code="document.querySelector('dialog .danger').click()")
    page.see("It is acked up to")
    page.wait_tile("events behind", lambda text: int(text) < 152, "its lag falls")
    page.click("Close")
    page.see("Its cursor is forgotten")
    page.click("Cancel")
    assert house.caller().call("cdc.pause", sub_id=sub_id)["ok"]
    page.click("Close")
    page.click("Close it")
    page.see("This subscription is closed")
    assert house.caller().refusal("cdc.pause", sub_id=sub_id)[0] == "not_found"
    # The browser logs answers of 404 by itself: of the stream and the tail of what was closed.
    expect_quiet(page, "404")


def test_the_page_goes_by_keyboard_alone(house, page):
    page.do("open", url=f"http://127.0.0.1:{house.door}/admin")
    focused = "document.activeElement.innerText || document.activeElement.name"
    seen = []

    def tab_to(name):
        for _ in range(12):
            page.do("press", key="Tab")
            seen.append(page.do("run", code=focused))
            if seen[-1] == name:
                return
        raise AssertionError(seen)

    tab_to("Token")
    page.do("press", key="Enter")
    tab_to("token")
    page.do("run", code=f"document.activeElement.value = {house.token()!r}")
    page.do("press", key="Enter")
    page.see("Road of a commit")
    assert page.do("run", code="document.activeElement.tagName") == "H1"
    for _ in range(3):
        page.do("press", key="Shift+Tab")
    page.do("press", key="Enter")
    wait_until(lambda: page.do("run", code="location.hash") != "", page.words)


def test_it_is_readable_at_a_thousand_subscriptions(house, page, pictures):
    """S43: fifty at a time, the worst first, found by search; nothing serious for axe in light and dark."""
    table = house.table("many")
    caller = house.caller()
    latest = caller.result("stats.snapshot")["cdc"]["latest_offset"]
    ids = house.subscribe(table, MANY - 60)
    for sub_id in ids[:25]:
        caller.result("cdc.pause", sub_id=sub_id)
    house.insert(table, 320)
    ids += house.subscribe(table, 60)
    for place, sub_id in enumerate(ids[25:65]):
        caller.result("cdc.ack", sub_id=sub_id, offset=latest + 8 * place)
    signed_in(house, page)
    page.go("subscriptions")
    page.fill("Search", table)
    wait_until(lambda: "of 1,000" in " ".join(page.texts("[aria-label=Pages]")), page.words)
    assert len(page.texts("tbody tr")) == 50
    states = [row.split("\t")[4] for row in page.texts("tbody tr")]
    assert states == sorted(states, key=["resnapshot", "throttle", "pressure", "paused", "healthy"].index)
    page.do("shot", path=str(pictures / "subscriptions.png"))
    page.click("Next")
    page.see("51 to 100 of 1,000")
    page.fill("Search", ids[-1])
    wait_until(lambda: "1 to 1 of 1" in " ".join(page.texts("[aria-label=Pages]")), page.words)
    with house.stack.live() as client:
        client.subscribe(f"SELECT note, count(*) FROM {table} GROUP BY note")
        client.subscribe(f"SELECT id FROM {table} WHERE id < 4")
        page.go("queries")
        wait_until(lambda: len(page.texts("tbody tr")) >= 2, page.words)
        wait_until(lambda: "row-local" in page.words(), page.words)
        wait_until(lambda: all(row.split("\t")[2] != "–" for row in page.texts("tbody tr")), page.words)
        page.do("run", code="document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        page.do("shot", path=str(pictures / "queries.png"))
        for scheme in ("dark", "light"):
            page.do("scheme", to=scheme)
            for view in VIEWS:
                page.go(view)
                page.see({"overview": "Road of a commit", "tables": "Cost of being watched"}.get(view, "Search"))
                wait_until(lambda: not any("Asking" in text for text in page.texts(".empty")), page.words)
                assert page.serious() == [], (scheme, view)
                if f"{view}-{scheme}" in SHOWN:
                    page.do("shot", path=str(pictures / f"{view}-{scheme}.png"))
    page.do("size", width=420, height=900)
    page.go("overview")
    page.see("Road of a commit")
    assert page.do("run", code="document.documentElement.scrollWidth <= innerWidth")
    page.do("shot", path=str(pictures / "narrow.png"))
    page.go("subscriptions")
    page.see("New subscription")
    assert page.do("run", code="document.documentElement.scrollWidth <= innerWidth")
    page.do("size", width=1280, height=900)
    expect_quiet(page)
