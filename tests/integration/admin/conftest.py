"""The whole stack with the HTTP port, for the administrators' page and its API."""

import secrets
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from services.devstack.ports import free_port
from tests.fixtures.cdc import HOUR_S, Caller
from tests.fixtures.full_stack import running_stack
from tests.fixtures.http_port import SECRET, token
from tests.fixtures.waiting import wait_until

RETENTION = 400


class House:
    """The stack, and who calls its gateway."""

    def __init__(self, stack, door: int) -> None:
        self.stack, self.door = stack, door
        self.database = psycopg.conninfo.conninfo_to_dict(stack.dsn)["dbname"]
        self.connection = stack.connect()

    def caller(self, role: str = "dba", name: str = "keeper") -> Caller:
        return Caller(self.door, {"sub": name, "role": role})

    def token(self, role: str = "dba") -> str:
        return token({"exp": time.time() + HOUR_S, "sub": "keeper", "role": role})

    def sql(self, statement: str) -> list[tuple]:
        found = self.connection.execute(statement)
        return found.fetchall() if found.description else []

    def table(self, name: str, *, full: bool = False) -> str:
        self.sql(f"CREATE TABLE {name} (id int PRIMARY KEY, note text)")
        if full:
            self.sql(f"ALTER TABLE {name} REPLICA IDENTITY FULL")
        return name

    def insert(self, table: str, count: int) -> None:
        self.sql(
            f"INSERT INTO {table} SELECT n + i FROM generate_series(1, {count}) i,"
            f" (SELECT coalesce(max(id), 0) AS n FROM {table}) last"
        )

    def subscribe(self, table: str, count: int = 1) -> list[str]:
        owners = [self.caller(name=f"shop-{number % 12}") for number in range(8)]

        def one(number: int) -> str:
            return owners[number % 8].result("cdc.subscribe_table", db=self.database, table=table)["sub_id"]

        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(one, range(count)))

    def overview(self) -> dict:
        return self.caller().get("/api/v1/admin/overview").body


@pytest.fixture(scope="package")
def house(postgres_server, kafka, redis_server, tmp_path_factory):
    door = free_port()
    settings = {
        "TIDEWIRE_REDIS_URL": redis_server.url,
        "TIDEWIRE_GATEWAY_HTTP_PORT": str(door),
        "TIDEWIRE_GATEWAY_HTTP_JWT_SECRET": SECRET,
        "TIDEWIRE_CDC_RETENTION_EVENTS": str(RETENTION),
        "TIDEWIRE_RECOMPUTE_WORKER_ID": f"admin-{secrets.token_hex(3)}",
    }
    with running_stack(postgres_server, kafka, tmp_path_factory.mktemp("admin"), **settings) as stack:
        made = House(stack, door)
        wait_until(lambda: len(made.overview()["services"]) == 5, lambda: made.overview())
        try:
            yield made
        finally:
            made.connection.close()
