"""The queries that applications write stay on Spark: a gate that sends all to PostgreSQL would be exact and useless."""

import secrets

import psycopg
import pytest

from services.chassis.postgres import Postgres
from services.recompute.core.planning import plan
from services.recompute.outbound.postgres.catalog import CatalogReader
from tests.fixtures.postgres import PostgresServer
from tests.oracle.applications.application import NAMES, read
from tests.oracle.case import Question
from tests.oracle.local import query_for, without_obstacles
from tests.oracle.test_road_applications import listed


@pytest.mark.parametrize("name", NAMES)
def test_each_query_is_planned_as_the_document_says(name: str, postgres_server: PostgresServer) -> None:
    application = read(name)
    database = f"planned_{secrets.token_hex(4)}"
    dsn = postgres_server.create_database(database)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(application.schema.encode())
    planned = {}
    with CatalogReader(Postgres(dsn=dsn, superusers_subscribe=True)) as reader:
        for one in application.queries:
            query = query_for(Question(one.sql, one.parameters))
            described = without_obstacles(reader.describe(query))
            chosen = plan(query.template_sql, query.filter, described, query.text_settings)
            planned[name, one.name] = chosen.strategy.value
    postgres_server.drop_database(database)
    assert planned == {key: strategy for key, strategy in listed().items() if key[0] == name}
