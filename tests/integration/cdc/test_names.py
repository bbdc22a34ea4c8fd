"""What the name of a table means: by the role's own search path, as in the role's sessions (finding 18)."""

import secrets

import pytest


@pytest.fixture
def schema(cdc):
    name = f"app_{secrets.token_hex(4)}"
    cdc.sql(f"CREATE SCHEMA {name}; GRANT USAGE ON SCHEMA {name} TO PUBLIC")
    return name


def made(cdc, name, columns="id int PRIMARY KEY"):
    cdc.sql(f"CREATE TABLE {name} ({columns}); GRANT SELECT ON {name} TO PUBLIC")


def subscribed(cdc, user, table):
    """The schema whose table is meant: the one whose insert is told."""
    sub = user.result("cdc.subscribe_table", db=cdc.database, table=table)
    return lambda: [
        event["table"] for event in user.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])["events"]
    ]


def test_the_role_s_own_search_path_is_heeded(cdc, schema):
    name = f"orders_{schema}"
    made(cdc, f"public.{name}")
    made(cdc, f"{schema}.{name}")
    plain = cdc.user(cdc.role())
    user = cdc.user(cdc.role(f"ALTER ROLE {{}} SET search_path = nowhere, {schema}, public"))
    told, told_plain = subscribed(cdc, user, name), subscribed(cdc, plain, name)
    queries = [each.result("query.prepare", sql=f"SELECT * FROM {name}") for each in (user, plain)]
    cdc.sql(f"INSERT INTO {schema}.{name} VALUES (1); INSERT INTO public.{name} VALUES (2)")
    assert (told(), told_plain()) == ([f"{schema}.{name}"], [name])
    assert [query["tables"] for query in queries] == [[f"{schema}.{name}"], [name]]
    # What was said of this database goes before.
    there = cdc.role(
        "ALTER ROLE {} SET search_path = public",
        f"ALTER ROLE {{}} IN DATABASE {cdc.database} SET search_path = {schema}",
    )
    assert cdc.user(there).result("query.prepare", sql=f"SELECT * FROM {name}")["tables"] == [f"{schema}.{name}"]


def test_a_schema_that_the_role_may_not_use_is_not_on_its_path(cdc, schema):
    name = f"orders_{schema}"
    made(cdc, f"public.{name}")
    made(cdc, f"{schema}.{name}")
    cdc.sql(f"REVOKE USAGE ON SCHEMA {schema} FROM PUBLIC")
    user = cdc.user(cdc.role(f"ALTER ROLE {{}} SET search_path = {schema}, public"))
    told = subscribed(cdc, user, name)
    cdc.sql(f"INSERT INTO public.{name} VALUES (1)")
    assert told() == [name]
    assert user.refusal("cdc.subscribe_table", db=cdc.database, table=f"{schema}.{name}")[0] == "forbidden"


def test_a_view_hides_the_table_behind_it(cdc, schema):
    """As in PostgreSQL: the name means the view, which has no changes."""
    name = f"orders_{schema}"
    made(cdc, f"public.{name}")
    cdc.sql(f"CREATE VIEW {schema}.{name} AS SELECT 1")
    user = cdc.user(cdc.role(f"ALTER ROLE {{}} SET search_path = {schema}, public"))
    assert user.refusal("cdc.subscribe_table", db=cdc.database, table=name)[0] == "not_found"
    subscribed(cdc, user, f"public.{name}")


def test_names_may_have_dots(cdc, service, schema):
    """Finding 20."""
    cdc.sql(f'CREATE SCHEMA "my.{schema}"; CREATE TABLE "my.{schema}"."a.b" (id int PRIMARY KEY)')
    told = subscribed(cdc, service, f"my.{schema}.a.b")
    cdc.sql(f'INSERT INTO "my.{schema}"."a.b" VALUES (1)')
    assert told() == [f"my.{schema}.a.b"]
