"""Gateways side by side: each reads its own partition of the deliveries, and the end of one is nobody else's concern.

V29, and the issue's "several gateways run side by side; losing any of them loses no state".
"""

import select
import time
from collections.abc import Callable, Iterator, Sequence

import psycopg
import pytest

from services.devstack.ports import free_port
from tests.e2e.live.scaled_stack import ScaledStack
from tests.e2e.live.subscriber import Subscriber
from tests.e2e.live.subscription import Phase, Subscription
from tests.oracle.case import Question

pytestmark = pytest.mark.slow
PATIENCE_S = 120.0
GOODS = Question("SELECT id, price, title FROM goods WHERE price > 5")


class Shopper:
    """A client of the goods at some gateway, which may become another one."""

    def __init__(self, stack: ScaledStack, port: int) -> None:
        self.port = port
        self.goods = Subscription(GOODS, 0, (0,))
        self.client = Subscriber(lambda: stack.dsn_at(self.port), lambda: 0)
        self.client.want(self.goods)

    @property
    def rows(self) -> list[tuple[bytes | None, ...]]:
        return sorted(self.goods.rows) if self.goods.phase is Phase.LIVE and self.goods.states else []


@pytest.fixture
def goods(stack: ScaledStack) -> Iterator[psycopg.Connection]:
    with stack.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY, price int NOT NULL, title text)")
        connection.execute("INSERT INTO goods SELECT n, n, 'good ' || n FROM generate_series(1, 20) n")
        yield connection
        connection.execute("DROP TABLE goods")


@pytest.fixture
def second(stack: ScaledStack) -> Iterator[int]:
    port = stack.add_gateway("gateway-2")
    yield port
    stack.remove("gateway-2")


def pump(shoppers: Sequence[Shopper], wait_s: float = 0.05) -> None:
    for shopper in shoppers:
        shopper.client.turn()
    connected = [shopper.client for shopper in shoppers if shopper.client.connected]
    for client in select.select(connected, [], [], wait_s)[0]:
        client.read()


def until(shoppers: Sequence[Shopper], holds: Callable[[], bool], words: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        pump(shoppers)
        assert time.monotonic() < deadline_s, f"{words}: {[(s.client.name, s.goods.phase, s.rows) for s in shoppers]}"


def answer(connection: psycopg.Connection) -> list[tuple[bytes | None, ...]]:
    rows = connection.execute("SELECT id, price, title FROM goods WHERE price > 5")
    return sorted(tuple(None if value is None else str(value).encode() for value in row) for row in rows)


def all_hold_the_answer(shoppers: Sequence[Shopper], connection: psycopg.Connection) -> None:
    until(shoppers, lambda: all(one.rows == answer(connection) for one in shoppers), "the answer")


def test_each_gateway_has_a_partition_of_its_own(stack: ScaledStack, second: int):
    taken = [
        line for name in ("gateway", "gateway-2") for line in stack.said(name) if line["event"] == "partition_taken"
    ]
    last_of_first = [line for line in stack.said("gateway") if line["event"] == "partition_taken"][-1]
    assert last_of_first["leased"] and taken[-1]["leased"]
    assert last_of_first["partition"] != taken[-1]["partition"]


def test_when_one_is_killed_the_others_clients_notice_nothing_and_its_own_go_there(
    stack: ScaledStack, goods: psycopg.Connection, second: int
):
    here, there = [Shopper(stack, stack.gateway_port) for _ in range(3)], [Shopper(stack, second) for _ in range(3)]
    everyone = [*here, *there]
    all_hold_the_answer(everyone, goods)
    goods.execute("UPDATE goods SET price = price + 1")
    all_hold_the_answer(everyone, goods)
    goods.execute("INSERT INTO goods VALUES (100, 100, 'while both are there')")
    stack.kill("gateway-2")
    goods.execute("INSERT INTO goods VALUES (101, 100, 'while one is dead')")
    for one in there:
        one.port = stack.gateway_port
    all_hold_the_answer(everyone, goods)
    goods.execute("UPDATE goods SET title = NULL WHERE id > 10; DELETE FROM goods WHERE id = 8")
    all_hold_the_answer(everyone, goods)
    # Only changes came, one after the other: no second whole result, no second connection.
    for one in here:
        assert [state.is_full for state in one.goods.states].count(True) == 1
        assert (one.goods.lives, one.client.connections) == (1, 1)
    for one in there:
        assert (one.goods.lives >= 2, one.client.connections) == (True, 2)
    # The dead one comes back, with another name and no memory; clients may go to it again.
    stack.add_gateway("gateway-2", second)
    for one in there:
        one.client.leave(politely=False)
        one.port = second
    goods.execute("INSERT INTO goods VALUES (102, 100, 'again')")
    all_hold_the_answer(everyone, goods)
    for one in everyone:
        one.client.leave(politely=True)


def test_when_a_gateway_dies_all_its_clients_are_back_soon(stack: ScaledStack, goods: psycopg.Connection):
    """Forty connections with three subscriptions each come at once."""
    shoppers = [Shopper(stack, stack.gateway_port) for _ in range(40)]
    for one in shoppers:
        one.client.want(*(Subscription(Question(f"SELECT id FROM goods WHERE id > {n}"), 0) for n in (3, 6)))
    until(shoppers, lambda: all(one.client.has_nothing_to_ask for one in shoppers), "the first results")
    all_hold_the_answer(shoppers, goods)
    stack.kill("gateway")
    goods.execute("UPDATE goods SET price = price + 50, title = 'dearer' WHERE id < 10")
    stack.start("gateway")
    began_s = time.monotonic()
    stack.wait_ready("gateway")
    ready_s = time.monotonic() - began_s
    until(shoppers, lambda: all(one.client.has_nothing_to_ask for one in shoppers), "the new first results")
    all_hold_the_answer(shoppers, goods)
    print(f"the gateway was ready after {ready_s:.1f} s, everyone back after {time.monotonic() - began_s:.1f} s")
    assert {(one.client.connections, one.goods.lives) for one in shoppers} == {(2, 2)}
    for one in shoppers:
        one.client.leave(politely=True)


def test_gateways_share_a_port_and_the_survivor_takes_all_clients(stack: ScaledStack, goods: psycopg.Connection):
    port = free_port()
    names = ("gateway-3", "gateway-4")
    for name in names:
        stack.add_gateway(name, port, TIDEWIRE_GATEWAY_SHARE_PORT="true")
    shoppers = [Shopper(stack, port) for _ in range(16)]
    all_hold_the_answer(shoppers, goods)
    shares = [stack.metrics(name)["tidewire_gateway_connections"] for name in names]
    assert (sum(shares), min(shares) > 0) == (16, True), shares
    stack.kill("gateway-3")
    goods.execute("UPDATE goods SET price = price + 100 WHERE id % 2 = 0")
    all_hold_the_answer(shoppers, goods)
    stayed = [one for one in shoppers if one.client.connections == 1]
    assert len(stayed) == shares[1]
    assert all([state.is_full for state in one.goods.states].count(True) == 1 for one in stayed)
    for one in shoppers:
        one.client.leave(politely=True)
    for name in names:
        stack.remove(name)
