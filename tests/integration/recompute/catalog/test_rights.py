"""Row-level security and rights: what a role may see is part of what is described."""

import psycopg
import pytest

from services.recompute.core.catalog import View
from services.recompute.outbound.postgres.catalog import CatalogReader, rights_mark
from services.sqlguard.refusal import Refused

ROOM = {"settings_read": {"app.room": "o'brien"}}
CLERK = "(((owner = 'clerk'::name)) OR ((room = 'o''brien'::text))) AND ((body <> 'it''s CURRENT_USER'::text))"

ROWS = """
INSERT INTO note VALUES (1, 'clerk', 'x', 'a'), (2, 'mallory', 'o''brien', 'b'), (3, 'keeper', NULL, NULL),
    (4, 'clerk', 'o''brien', 'it''s CURRENT_USER'), (5, NULL, NULL, 'c');
INSERT INTO forced VALUES (1); INSERT INTO mine VALUES (1); INSERT INTO closed VALUES (1);
"""


def row_filter(described, name: str = "note") -> str:
    return described.relations["public", name].row_filter


def test_policies_become_a_condition_with_the_subscriber_s_own_values(describe):
    assert row_filter(describe("SELECT * FROM note", **ROOM)) == CLERK


def test_only_policies_of_the_role_count(describe):
    assert row_filter(describe("SELECT * FROM note", role="auditor")) == (
        "((true) OR ((owner = 'auditor'::name))) AND ((body <> 'it''s CURRENT_USER'::text))"
    )


def test_the_owner_and_superusers_see_everything(describe):
    assert row_filter(describe("SELECT * FROM note", role="keeper")) == ""
    assert row_filter(describe("SELECT * FROM note", role="postgres")) == ""
    assert row_filter(describe("SELECT * FROM mine"), "mine") == ""


def test_an_owner_who_is_forced_and_a_table_without_policies_show_nothing(describe):
    assert row_filter(describe("SELECT * FROM forced"), "forced") == "false"
    assert row_filter(describe("SELECT * FROM closed"), "closed") == "false"


def test_a_view_shows_what_its_owner_may_see_unless_it_asks_for_its_reader(describe):
    owners = describe("SELECT * FROM notes_of_keeper")
    assert (row_filter(owners), type(owners.relations["public", "notes_of_keeper"])) == ("", View)
    assert row_filter(describe("SELECT * FROM notes_of_reader", **ROOM)) == CLERK


def test_one_table_with_two_roles_rights_is_postgresql_s_to_read(describe):
    found = describe("SELECT 1 FROM note n, notes_of_keeper k", **ROOM)
    assert found.obstacle == "public.note is read with the rights of two roles"


def test_a_policy_with_a_subquery_is_postgresql_s_to_read_and_its_tables_are_known(describe):
    found = describe("SELECT * FROM memo", **ROOM)
    assert found.obstacle == "a policy with a subquery"
    assert row_filter(found) == CLERK


def test_a_policy_that_changes_changes_what_is_described(describe, admin: psycopg.Connection):
    before = row_filter(describe("SELECT * FROM note", role="mallory"))
    admin.execute("CREATE POLICY more ON note FOR SELECT TO mallory USING (room = 'open')")
    try:
        after = row_filter(describe("SELECT * FROM note", role="mallory"))
    finally:
        admin.execute("DROP POLICY more ON note")
    assert (before, after) == (
        "(((owner = 'mallory'::name))) AND ((body <> 'it''s CURRENT_USER'::text))",
        "(((room = 'open'::text)) OR ((owner = 'mallory'::name))) AND ((body <> 'it''s CURRENT_USER'::text))",
    )


@pytest.mark.parametrize("role", ["clerk", "auditor", "keeper", "mallory", "postgres"])
def test_the_condition_lets_the_same_rows_through_as_postgresql(describe, admin: psycopg.Connection, role):
    tables = ("note", "notes_of_keeper", "notes_of_reader", "forced", "mine", "closed")
    with admin.transaction(force_rollback=True):
        admin.execute(ROWS)
        ours = {table: through_the_condition(describe, admin, table, role) for table in tables}
        admin.execute("SELECT set_config('app.room', 'o''brien', true), set_config('role', %s, true)", [role])
        assert ours == {table: rows(admin, f"SELECT * FROM {table}") for table in tables}


def through_the_condition(describe, admin: psycopg.Connection, table: str, role: str) -> list[str]:
    found = describe(f"SELECT * FROM {table}", role=role, **ROOM).relations.values()
    shown = next(one for one in found if not isinstance(one, View))
    return rows(admin, f"SELECT * FROM {shown.schema}.{shown.name} WHERE {shown.row_filter or 'true'}")


def rows(connection: psycopg.Connection, sql: str) -> list[str]:
    return sorted(map(str, connection.execute(sql).fetchall()))


@pytest.mark.parametrize(
    "change",
    [
        "GRANT SELECT ON loose TO mallory WITH GRANT OPTION",
        "GRANT SELECT (secret) ON hidden TO mallory",
        "CREATE POLICY again ON note USING (false)",
        "ALTER POLICY own ON note USING (true)",
        "ALTER TABLE loose ENABLE ROW LEVEL SECURITY",
        "GRANT keeper TO mallory",
        "ALTER ROLE mallory BYPASSRLS",
        "REVOKE USAGE ON SCHEMA archive FROM clerk",
        "ALTER FUNCTION stock() OWNER TO keeper",
        "ALTER VIEW cheap SET (security_invoker = true)",
    ],
)
def test_the_mark_of_rights_is_another_one_when_rights_are(reader: CatalogReader, admin, change):
    before = reader.rights()
    # In its own transaction, so that the change need not be undone.
    admin.execute("BEGIN; SET LOCAL search_path = public")
    admin.execute(change)
    inside = rights_mark(admin)
    admin.execute("ROLLBACK")
    assert inside != before and reader.rights() == before


@pytest.mark.parametrize(
    "change",
    [
        "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TEMP VIEW passing AS SELECT 1 AS a",
        "CREATE TEMP TABLE passing (a int); GRANT SELECT (a) ON passing TO PUBLIC; CREATE POLICY p ON passing",
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC",
    ],
)
def test_what_any_login_may_make_for_itself_is_no_other_mark_of_rights(reader: CatalogReader, admin, change):
    before = reader.rights()
    admin.execute("BEGIN")
    admin.execute(change)
    inside = rights_mark(admin)
    admin.execute("ROLLBACK")
    assert inside == before


def test_a_setting_of_the_subscriber_that_nobody_knows_is_refused(describe):
    with pytest.raises(Refused, match=r"setting app\.room in the subscriber's session is not known"):
        describe("SELECT * FROM note")


@pytest.mark.parametrize("name", ["role", "session_authorization", "is_superuser", "work_mem"])
def test_a_setting_that_would_tell_of_our_session_is_refused(describe, name):
    for known in ({}, {name: "none"}):
        with pytest.raises(Refused, match=f"setting {name} in the subscriber's session is not known"):
            describe(f"SELECT current_setting('{name}')", settings_read=known)


def test_the_name_of_an_application_is_the_subscriber_s(describe):
    described = describe("SELECT current_setting('application_name')", settings_read={"application_name": "shop"})
    assert [(column.name, column.type.name) for column in described.columns] == [("current_setting", "text")]
    with pytest.raises(Refused, match="setting application_name in the subscriber's session is not known"):
        describe("SELECT current_setting('application_name')")


def test_settings_of_the_server_and_of_the_query_are_known(describe):
    names = ("server_version", "TimeZone", "search_path")
    described = describe("SELECT " + ", ".join(f"current_setting('{name}') AS {name}" for name in names))
    assert [column.name for column in described.columns] == [name.lower() for name in names]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT secret FROM hidden", "permission denied for table hidden"),
        ("SELECT shown FROM hidden WHERE secret = 'x'", "permission denied for table hidden"),
        ("SELECT * FROM hidden", "permission denied for table hidden"),
        ("SELECT count(hidden) FROM hidden", "permission denied for table hidden"),
    ],
)
def test_columns_without_a_right_are_refused_in_postgresql_s_words(describe, sql, words):
    with pytest.raises(Refused, match=words) as refusal:
        describe(sql)
    assert refusal.value.sqlstate == "42501"


def test_columns_with_a_right_are_not(describe):
    assert [column.name for column in describe("SELECT id, shown FROM hidden").columns] == ["id", "shown"]


def test_a_view_lends_its_owner_s_rights(describe, admin: psycopg.Connection):
    admin.execute("CREATE OR REPLACE VIEW lent AS SELECT secret FROM hidden; GRANT SELECT ON lent TO clerk")
    assert [column.name for column in describe("SELECT * FROM lent").columns] == ["secret"]
    admin.execute("ALTER VIEW lent OWNER TO clerk")
    with pytest.raises(Refused, match="permission denied for table hidden"):
        describe("SELECT * FROM lent")


def test_a_role_that_is_gone_is_refused(describe):
    with pytest.raises(Refused, match='role "nobody_here" does not exist'):
        describe("SELECT 1", role="nobody_here")
