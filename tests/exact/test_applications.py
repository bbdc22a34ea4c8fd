"""The queries that applications write stay on Spark: a gate that sends all to PostgreSQL would be exact and useless."""

import re
import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from services.chassis.postgres import Postgres
from services.devstack.settings import PROJECT
from services.recompute.core.plan import Strategy
from services.recompute.core.planning import plan
from services.recompute.outbound.postgres.catalog import CatalogReader
from tests.fixtures.postgres import PostgresServer
from tests.oracle.applications.application import NAMES, read
from tests.oracle.case import Place, Question
from tests.oracle.local import query_for, without_obstacles
from tests.oracle.places import create, server_at
from tests.oracle.test_road_applications import listed

LANGUAGE = re.compile(r"\*\*(\d+) of 60\*\* on Spark in a database of a language")


def planned(name: str, dsn: str, **settings: str) -> Iterator[tuple[str, Strategy]]:
    """Each query of an application, and how it is kept under these settings."""
    application = read(name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(application.schema.encode())
    with CatalogReader(Postgres(dsn=dsn, superusers_subscribe=True)) as reader:
        for one in application.queries:
            query = query_for(Question(one.sql, one.parameters, settings=settings))
            described = without_obstacles(reader.describe(query))
            yield one.name, plan(query.template_sql, query.filter, described, query.text_settings).strategy


@pytest.mark.parametrize("name", NAMES)
def test_each_query_is_planned_as_the_document_says(name: str, postgres_server: PostgresServer) -> None:
    database = f"planned_{secrets.token_hex(4)}"
    dsn = postgres_server.create_database(database)
    found = {(name, query): strategy.value for query, strategy in planned(name, dsn)}
    postgres_server.drop_database(database)
    assert found == {key: strategy for key, strategy in listed().items() if key[0] == name}


def test_the_share_in_a_database_of_a_language_is_the_one_of_the_document(tmp_path: Path) -> None:
    place, on_spark = Place(18, "libc"), 0
    with server_at(place, tmp_path) as server:
        for name in NAMES:
            found = planned(name, create(server, place, name), TimeZone="Europe/Berlin")
            on_spark += sum(strategy is not Strategy.SOURCE for _, strategy in found)
    [told] = LANGUAGE.findall((PROJECT / "docs" / "applications.md").read_text())
    assert on_spark == int(told)
