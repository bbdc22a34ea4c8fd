"""Whose checks of subscribes wait for whom."""

import asyncio
import threading

import pytest

from services.gateway.core.principal import Principal
from services.gateway.core.requests import SubscribeRequest
from services.gateway.outbound.checks import Checks

WITHIN_S = 10.0


class Held:
    """Answers at once, but for one login, whose checks wait until the gate opens."""

    def __init__(self, login):
        self._login, self.gate = login, threading.Event()

    def check(self, subscribe, principal):
        if principal.login == self._login:
            self.gate.wait(WITHIN_S * 3)
        return principal.login


@pytest.fixture
def held():
    validation = Held("many")
    yield validation
    validation.gate.set()


def principal(login, role):
    return Principal("c", role, "app", {}, login=login)


async def test_a_login_gets_no_more_threads_by_setting_other_roles(held):
    checks = Checks(held)
    slow = [
        asyncio.create_task(checks.check(SubscribeRequest(f"SELECT {n}"), principal("many", f"role{n}")))
        for n in range(8)
    ]
    await asyncio.sleep(0)  # so that all of them have asked
    async with asyncio.timeout(WITHIN_S):
        assert await checks.check(SubscribeRequest("SELECT 1"), principal("modest", "role1")) == "modest"
    assert not any(one.done() for one in slow)
    held.gate.set()
    assert await asyncio.gather(*slow) == ["many"] * 8
