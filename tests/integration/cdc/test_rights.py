"""Who gets what (decision 19): SELECT on the whole table, no policy in between; looked at again and again."""

import pytest

from tests.fixtures.waiting import wait_until


@pytest.fixture
def table(cdc):
    return cdc.table("id int PRIMARY KEY, secret text")


def test_a_role_with_select_gets_the_rows(cdc, table):
    user = cdc.user(cdc.role(f"GRANT SELECT ON {table} TO {{}}"))
    sub = user.result("cdc.subscribe_table", db=cdc.database, table=table)
    cdc.sql(f"INSERT INTO {table} VALUES (1, 'x')")
    assert len(user.result("cdc.poll", sub_id=sub["sub_id"], from_offset=sub["offset"])["events"]) == 1


@pytest.mark.parametrize(
    "grants",
    [
        (),
        ("GRANT INSERT, UPDATE ON {table} TO {{}}",),
        ("GRANT SELECT (id) ON {table} TO {{}}",),
        ("GRANT SELECT (id, secret) ON {table} TO {{}}",),
        ("GRANT SELECT ON {table} TO {{}}", "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"),
        (
            "GRANT SELECT ON {table} TO {{}}",
            "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY all_rows ON {table} USING (true)",
        ),
        (
            "ALTER TABLE {table} OWNER TO {{}}",
            "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
        ),
    ],
    ids=["nothing", "writing", "a column", "all columns", "policies", "a policy for all", "a forced policy"],
)
def test_a_role_without_the_whole_table_gets_nothing(cdc, table, grants):
    user = cdc.user(cdc.role(*[grant.format(table=table) for grant in grants]))
    assert user.refusal("cdc.subscribe_table", db=cdc.database, table=table)[0] == "forbidden"


def test_a_caller_without_a_role_gets_nothing(cdc, table):
    from tests.fixtures.cdc import Caller

    nobody = Caller(cdc.doors[0], {"sub": "nobody"})
    assert nobody.refusal("cdc.subscribe_table", db=cdc.database, table=table)[0] == "forbidden"


def test_the_owner_passes_its_own_policies(cdc, table):
    user = cdc.user(cdc.role(f"ALTER TABLE {table} OWNER TO {{}}"))
    cdc.sql(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    assert user.result("cdc.subscribe_table", db=cdc.database, table=table)["sub_id"]


@pytest.mark.parametrize(
    "end", ["REVOKE SELECT ON {table} FROM {role}", "ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"]
)
def test_a_right_that_is_lost_ends_polls_and_streams(cdc, table, end):
    role = cdc.role(f"GRANT SELECT ON {table} TO {{}}")
    user = cdc.user(role)
    sub = user.result("cdc.subscribe_table", db=cdc.database, table=table)
    with user.sse(sub["sub_id"]) as stream:
        cdc.sql(f"INSERT INTO {table} VALUES (1, 'x')")
        assert stream.next().name == "insert"
        cdc.sql(end.format(table=table, role=role))
        cdc.sql(f"INSERT INTO {table} VALUES (2, 'secret')")
        last = stream.next()
        assert (last.name, last.data["code"]) == ("error", "forbidden")
        assert stream.next() is None
    assert user.refusal("cdc.poll", sub_id=sub["sub_id"], from_offset=0)[0] == "forbidden"


def test_a_role_that_may_not_log_in_any_more_is_sent_away(cdc, table):
    role = cdc.role(f"GRANT SELECT ON {table} TO {{}}")
    user = cdc.user(role)
    sub = user.result("cdc.subscribe_table", db=cdc.database, table=table)
    with user.sse(sub["sub_id"]) as stream:
        cdc.sql(f"ALTER ROLE {role} NOLOGIN")
        last = stream.next()
        assert (last.name, last.data["code"]) in (("error", "forbidden"), ("error", "unauthorized"))


def test_another_owner_s_subscription_is_not_there(cdc, table):
    """Not for a service role either; operators see all."""
    mine = cdc.service("one").result("cdc.subscribe_table", db=cdc.database, table=table)["sub_id"]
    role = cdc.role(f"GRANT SELECT ON {table} TO {{}}")
    for other in (cdc.service("two"), cdc.user(role)):
        for method, more in (("cdc.poll", {"from_offset": 0}), ("cdc.ack", {"offset": 1}), ("cdc.close", {})):
            assert other.refusal(method, sub_id=mine, **more)[0] == "not_found"
        assert other.get(f"/api/v1/cdc/sse/{mine}").status == 404
    assert cdc.dba().result("cdc.poll", sub_id=mine, from_offset=0)["events"] == []
    wait_until(lambda: cdc.dba().result("cdc.close", sub_id=mine)["closed"], "an operator closes it")
