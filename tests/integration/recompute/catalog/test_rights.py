"""Row-level security and rights: what a role may see is part of what is described."""

import psycopg
import pytest

from services.recompute.core.catalog import View
from services.recompute.core.refusal import Refused
from services.recompute.inbound.catalog import CatalogReader

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
    assert (row_filter(owners), type(owners.relations["", "notes_of_keeper"])) == ("", View)
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
def test_the_mark_of_rights_is_another_one_when_rights_are(reader: CatalogReader, change):
    before = reader.rights()
    # In its own transaction, so that the change need not be undone.
    reader._connection.execute("BEGIN; SET LOCAL search_path = public")
    reader._connection.execute(change)
    inside = reader.rights()
    reader._connection.execute("ROLLBACK")
    assert inside != before and reader.rights() == before


def test_a_setting_of_the_subscriber_that_nobody_knows_is_refused(describe):
    with pytest.raises(Refused, match=r"setting app\.room in the subscriber's session is not known"):
        describe("SELECT * FROM note")


def test_settings_of_the_server_and_of_the_query_are_known(describe):
    describe("SELECT current_setting('server_version'), current_setting('TimeZone'), current_setting('search_path')")


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
