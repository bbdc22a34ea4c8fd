"""DDL while capture runs: each is marked at its commit, in order with the rows around it, and breaks nothing."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from proto.pgoutput.messages import ABSENT
from proto.positions import Lsn
from proto.streams.changes import ChangeEvent, Committed, RowChanged, SchemaChanged, Truncated
from tests.fixtures.capture import CapturedDatabase
from tests.fixtures.postgres import PostgresServer, start_postgres

ROWS_AND_MARKS = (RowChanged, SchemaChanged, Truncated)


@pytest.fixture
def running(captured: CapturedDatabase) -> Iterator[CapturedDatabase]:
    """A database whose capture runs, and still runs when the test is over: no DDL ends it."""
    process = captured.start().wait_ready()
    yield captured
    assert process.process.poll() is None, process.output()
    assert captured.events_up_to_now()


def tag_of(mark: SchemaChanged) -> str:
    return json.loads(mark.description)["tag"]


def names_in(mark: SchemaChanged) -> set[str]:
    """What the mark says it is about, as schema-qualified identities."""
    return {touched["identity"] for touched in json.loads(mark.description)["objects"]}


def is_ours(event: ChangeEvent) -> bool:
    """Marks of our own sweep come whenever it has time; they are not the test's DDL."""
    return isinstance(event, SchemaChanged) and tag_of(event).startswith("TIDEWIRE")


def shown(event: ChangeEvent) -> object:
    """A row as its columns and values, a mark as its tag: what the tests compare."""
    match event:
        case RowChanged(relation=relation, before=before, after=after):
            row = after if after is not None else before
            values = dict(zip((column.name for column in relation.columns), row, strict=True))
            return event.operation, relation.name, {name: value for name, value in values.items() if value != ABSENT}
        case SchemaChanged():
            return tag_of(event)
        case Truncated(relation=relation):
            return "truncate", relation.name
    raise AssertionError(event)


def transactions(events: Sequence[ChangeEvent]) -> list[list[ChangeEvent]]:
    """Rows and marks by transaction, in commit order; transactions with none are left out."""
    found: list[list[ChangeEvent]] = [[]]
    for event in events:
        if isinstance(event, Committed):
            found.append([])
        elif isinstance(event, ROWS_AND_MARKS) and not is_ours(event):
            found[-1].append(event)
    return [transaction for transaction in found if transaction]


def story(events: Sequence[ChangeEvent]) -> list[list[object]]:
    return [told_once([shown(event) for event in transaction]) for transaction in transactions(events)]


def told_once(told: list[object]) -> list[object]:
    """One command may be told of twice in a row, as a command and as a drop."""
    return [each for number, each in enumerate(told) if number == 0 or each != told[number - 1]]


def assert_each_mark_stands_at_its_commit(events: Sequence[ChangeEvent]) -> None:
    """Every row and mark of a transaction has the commit LSN of its commit record, and those only grow."""
    commits: list[Lsn] = []
    open_lsns: set[Lsn] = set()
    for event in events:
        if isinstance(event, ROWS_AND_MARKS):
            open_lsns.add(event.commit_lsn)
        elif isinstance(event, Committed):
            assert open_lsns <= {event.commit_lsn}
            open_lsns = set()
            commits.append(event.commit_lsn)
    assert commits == sorted(set(commits))


# Each: what is there before, the DDL, a statement after it, and how the row of that statement looks.
RESHAPES = {
    "add a column with a default": (
        "ALTER TABLE goods ADD COLUMN stock int NOT NULL DEFAULT 7",
        "UPDATE goods SET name = 'mate' WHERE id = 1",
        ("update", "goods", {"id": b"1", "name": b"mate", "price": b"1.50", "stock": b"7"}),
    ),
    "add a column with a volatile default": (
        "ALTER TABLE goods ADD COLUMN mark text DEFAULT (random() < 2)::text",
        "UPDATE goods SET name = 'mate' WHERE id = 1",
        ("update", "goods", {"id": b"1", "name": b"mate", "price": b"1.50", "mark": b"true"}),
    ),
    "drop a column": (
        "ALTER TABLE goods DROP COLUMN price",
        "INSERT INTO goods VALUES (2, 'rum')",
        ("insert", "goods", {"id": b"2", "name": b"rum"}),
    ),
    "rename a column": (
        'ALTER TABLE goods RENAME COLUMN name TO "Название"',
        "INSERT INTO goods VALUES (2, 'rum', 2)",
        ("insert", "goods", {"id": b"2", "Название": b"rum", "price": b"2.00"}),
    ),
    "change a type with USING": (
        "ALTER TABLE goods ALTER COLUMN price TYPE text USING 'EUR ' || price",
        "UPDATE goods SET name = 'mate' WHERE id = 1",
        ("update", "goods", {"id": b"1", "name": b"mate", "price": b"EUR 1.50"}),
    ),
    "change a modifier only": (
        "ALTER TABLE goods ALTER COLUMN price TYPE numeric(12, 4)",
        "UPDATE goods SET name = 'mate' WHERE id = 1",
        ("update", "goods", {"id": b"1", "name": b"mate", "price": b"1.5000"}),
    ),
    "rename the table": (
        "ALTER TABLE goods RENAME TO wares",
        "INSERT INTO wares VALUES (2, 'rum', 2)",
        ("insert", "wares", {"id": b"2", "name": b"rum", "price": b"2.00"}),
    ),
    "move the table to another schema": (
        "ALTER TABLE goods SET SCHEMA store",
        "INSERT INTO store.goods VALUES (2, 'rum', 2)",
        ("insert", "goods", {"id": b"2", "name": b"rum", "price": b"2.00"}),
    ),
    "create an index": (
        "CREATE INDEX ON goods (name)",
        "DELETE FROM goods WHERE id = 1",
        ("delete", "goods", {"id": b"1"}),
    ),
    "drop the key": (
        "ALTER TABLE goods DROP CONSTRAINT goods_pkey",
        "DELETE FROM goods WHERE id = 1",
        ("delete", "goods", {"id": b"1", "name": b"tea", "price": b"1.50"}),
    ),
    "choose another key": (
        "ALTER TABLE goods DROP CONSTRAINT goods_pkey, ADD PRIMARY KEY (name)",
        "DELETE FROM goods WHERE id = 1",
        ("delete", "goods", {"name": b"tea"}),
    ),
    "rewrite the table": (
        "ALTER TABLE goods ALTER COLUMN id TYPE bigint",
        "UPDATE goods SET id = 5000000000",
        ("update", "goods", {"id": b"5000000000", "name": b"tea", "price": b"1.50"}),
    ),
}
GOODS = """
CREATE TABLE goods (id int PRIMARY KEY, name text NOT NULL, price numeric(8, 2));
CREATE SCHEMA store;
"""
TEA = "INSERT INTO goods VALUES (1, 'tea', 1.5)"


def test_each_reshaping_is_marked_at_its_commit_and_rows_after_it_have_the_new_shape(running: CapturedDatabase):
    expected = []
    with running.connect() as connection:
        for ddl, after, row in RESHAPES.values():
            for statement in (GOODS, TEA, ddl, after, "DROP TABLE IF EXISTS goods, wares", "DROP SCHEMA store CASCADE"):
                connection.execute(statement)
            # Multi-statement GOODS is one transaction.
            expected.append([("insert", "goods", {"id": b"1", "name": b"tea", "price": b"1.50"})])
            expected.append([" ".join(ddl.split()[:2])])
            expected.append([row])
    events = running.events_up_to_now()
    frame = ("CREATE", "DROP")
    told = [
        t for t in story(events) if not (isinstance(t[0], str) and t[0].startswith(frame) and t != ["CREATE INDEX"])
    ]
    assert told == expected
    assert_each_mark_stands_at_its_commit(events)


def test_the_same_reshapings_amid_rows_of_one_transaction_stand_between_them(running: CapturedDatabase):
    expected = []
    with running.connect() as connection:
        for ddl, after, row in RESHAPES.values():
            connection.execute(GOODS)
            with connection.transaction():
                connection.execute(TEA)
                # A savepoint of the user's is a subtransaction, whose changes PostgreSQL merges with those around it.
                with connection.transaction():
                    connection.execute(ddl)
                connection.execute(after)
            connection.execute("DROP TABLE IF EXISTS goods, wares")
            connection.execute("DROP SCHEMA store CASCADE")
            tea = ("insert", "goods", {"id": b"1", "name": b"tea", "price": b"1.50"})
            expected.append([tea, " ".join(ddl.split()[:2]), row])
    events = running.events_up_to_now()
    assert [told for told in story(events) if len(told) > 2] == expected
    assert_each_mark_stands_at_its_commit(events)


def test_a_table_dropped_and_made_again_under_its_name_is_another_relation(running: CapturedDatabase):
    with running.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO goods VALUES (1, 'tea')")
        with connection.transaction():
            connection.execute("INSERT INTO goods VALUES (2, 'rum')")
            connection.execute("DROP TABLE goods")
            connection.execute("CREATE TABLE goods (sku text, amount int)")
            connection.execute("INSERT INTO goods VALUES ('t', 3)")
    events = running.events_up_to_now()
    assert story(events) == [
        ["CREATE TABLE"],
        [("insert", "goods", {"id": b"1", "name": b"tea"})],
        [
            ("insert", "goods", {"id": b"2", "name": b"rum"}),
            "DROP TABLE",
            "CREATE TABLE",
            ("insert", "goods", {"sku": b"t", "amount": b"3"}),
        ],
    ]
    relations = [event.relation.oid for event in events if isinstance(event, RowChanged)]
    assert relations[0] == relations[1] != relations[2]
    (dropped,) = [event for event in events if isinstance(event, SchemaChanged) and tag_of(event) == "DROP TABLE"]
    assert "public.goods" in names_in(dropped)


def test_partitions_that_come_and_go_are_marked_and_their_rows_carry_the_leafs_name(running: CapturedDatabase):
    with running.connect() as connection:
        connection.execute("CREATE TABLE sales (id int PRIMARY KEY, item text) PARTITION BY RANGE (id)")
        connection.execute("CREATE TABLE sales_low PARTITION OF sales FOR VALUES FROM (0) TO (10)")
        connection.execute("CREATE TABLE sales_high (item text, id int PRIMARY KEY)")
        connection.execute("INSERT INTO sales_high VALUES ('old', 11)")
        connection.execute("ALTER TABLE sales ATTACH PARTITION sales_high FOR VALUES FROM (10) TO (20)")
        connection.execute("INSERT INTO sales VALUES (1, 'low'), (12, 'high')")
        connection.execute("UPDATE sales SET id = 13 WHERE id = 1")
        connection.execute("ALTER TABLE sales DETACH PARTITION sales_low")
        connection.execute("ALTER TABLE sales DETACH PARTITION sales_high CONCURRENTLY")
        connection.execute("DELETE FROM sales_high WHERE id = 13")
    events = running.events_up_to_now()
    rows = [shown(event) for event in events if isinstance(event, RowChanged)]
    assert rows == [
        ("insert", "sales_high", {"id": b"11", "item": b"old"}),
        ("insert", "sales_low", {"id": b"1", "item": b"low"}),
        ("insert", "sales_high", {"id": b"12", "item": b"high"}),
        ("delete", "sales_low", {"id": b"1"}),
        ("insert", "sales_high", {"id": b"13", "item": b"low"}),
        ("delete", "sales_high", {"id": b"13"}),
    ]
    told = story(events)
    after_attach = told.index([rows[0]]) + 1
    assert told[after_attach][0] == "ALTER TABLE"
    assert told[after_attach + 1] == rows[1:3]
    detached = told[told.index(rows[3:5]) + 1 : told.index([rows[5]])]
    # DETACH … CONCURRENTLY is two transactions; at least its last one is marked.
    assert {tag for marks in detached for tag in marks} == {"ALTER TABLE"} and len(detached) >= 2
    marks = [event for event in events if isinstance(event, SchemaChanged) and tag_of(event) == "ALTER TABLE"]
    assert names_in(marks[0]) >= {"public.sales", "public.sales_high"}
    assert all("public.sales" in names_in(mark) for mark in marks[1:])
    assert_each_mark_stands_at_its_commit(events)


def test_ddl_that_is_rolled_back_leaves_nothing(running: CapturedDatabase):
    with running.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY)")
        with connection.transaction(force_rollback=True):
            connection.execute("ALTER TABLE goods ADD COLUMN lost int DEFAULT 1")
            connection.execute("INSERT INTO goods VALUES (1)")
            connection.execute("CREATE TABLE never (id int)")
        with connection.transaction():
            connection.execute("INSERT INTO goods VALUES (2)")
            with connection.transaction(force_rollback=True):
                connection.execute("ALTER TABLE goods ADD COLUMN lost text DEFAULT 'x'")
                connection.execute("INSERT INTO goods VALUES (3)")
            connection.execute("INSERT INTO goods VALUES (4)")
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("ALTER TABLE goods ADD COLUMN lost int DEFAULT 1; SELECT 1 / 0")
        connection.execute("INSERT INTO goods VALUES (5)")
    assert story(running.events_up_to_now()) == [
        ["CREATE TABLE"],
        [("insert", "goods", {"id": b"2"}), ("insert", "goods", {"id": b"4"})],
        [("insert", "goods", {"id": b"5"})],
    ]


def test_several_ddl_with_rows_between_them_come_in_the_order_they_were_written(running: CapturedDatabase):
    with running.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY, a text)")
        with connection.transaction():
            connection.execute("INSERT INTO goods VALUES (1, 'x')")
            connection.execute("ALTER TABLE goods ADD COLUMN b int DEFAULT 2")
            connection.execute("UPDATE goods SET a = 'y'")
            connection.execute("ALTER TABLE goods DROP COLUMN a")
            connection.execute("UPDATE goods SET b = 3")
            connection.execute("TRUNCATE goods")
            connection.execute("ALTER TABLE goods RENAME COLUMN b TO c")
            connection.execute("INSERT INTO goods VALUES (2, 4)")
            connection.execute("ALTER TABLE goods RENAME TO wares")
            connection.execute("DELETE FROM wares")
    *_, mixed = story(running.events_up_to_now())
    assert mixed == [
        ("insert", "goods", {"id": b"1", "a": b"x"}),
        "ALTER TABLE",
        ("update", "goods", {"id": b"1", "a": b"y", "b": b"2"}),
        "ALTER TABLE",
        ("update", "goods", {"id": b"1", "b": b"3"}),
        ("truncate", "goods"),
        "ALTER TABLE",
        ("insert", "goods", {"id": b"2", "c": b"4"}),
        "ALTER TABLE",
        ("delete", "wares", {"id": b"2"}),
    ]


def test_a_table_that_is_untracked_reshaped_and_tracked_again_keeps_every_row_in_its_own_shape(
    running: CapturedDatabase,
):
    with running.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY, name text)")
        with connection.transaction():
            connection.execute("INSERT INTO goods VALUES (1, 'tea')")
            connection.execute("SELECT _tidewire.untrack('goods')")
            connection.execute("INSERT INTO goods VALUES (2, 'unseen')")
            connection.execute("ALTER TABLE goods DROP COLUMN name")
            connection.execute("ALTER TABLE goods ADD COLUMN stock int")
            connection.execute("SELECT _tidewire.track('goods')")
            connection.execute("INSERT INTO goods VALUES (3, 30)")
    rows = [shown(event) for event in running.events_up_to_now() if isinstance(event, RowChanged)]
    assert rows == [
        ("insert", "goods", {"id": b"1", "name": b"tea"}),
        ("insert", "goods", {"id": b"3", "stock": b"30"}),
    ]


def test_ddl_while_nobody_watches_is_marked_when_capture_comes_back(captured: CapturedDatabase):
    first = captured.start().wait_ready()
    with captured.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO goods VALUES (1, 'tea')")
        first.kill()
        connection.execute("INSERT INTO goods VALUES (2, 'rum')")
        connection.execute("ALTER TABLE goods DROP COLUMN name")
        connection.execute("INSERT INTO goods VALUES (3)")
        connection.execute("DROP TABLE goods")
    captured.start().wait_ready()
    assert story(captured.events_up_to_now()) == [
        ["CREATE TABLE"],
        [("insert", "goods", {"id": b"1", "name": b"tea"})],
        [("insert", "goods", {"id": b"2", "name": b"rum"})],
        ["ALTER TABLE"],
        [("insert", "goods", {"id": b"3"})],
        ["DROP TABLE"],
    ]


@pytest.fixture(scope="module")
def two_phase_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    settings = {"max_prepared_transactions": "10"}
    with start_postgres(tmp_path_factory.mktemp("two-phase"), settings=settings) as server:
        yield server


def test_a_prepared_transaction_comes_out_once_at_its_commit(
    two_phase_server: PostgresServer, captured_at, tmp_path: Path
):
    captured = captured_at(two_phase_server.dsn)
    capture = captured.start().wait_ready()
    with captured.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY, name text)")
        for statement in ("INSERT INTO goods VALUES (1, 'kept')", "ALTER TABLE goods ADD COLUMN stock int DEFAULT 5"):
            connection.execute("BEGIN")
            connection.execute(statement)
            connection.execute("PREPARE TRANSACTION 'kept'")
            if statement.startswith("INSERT"):
                connection.execute("INSERT INTO goods VALUES (2, 'between')")
                assert capture.terminate() == 0
                captured.start().wait_ready()
            connection.execute("COMMIT PREPARED 'kept'")
        connection.execute("BEGIN")
        connection.execute("INSERT INTO goods VALUES (3, 'lost', 1)")
        connection.execute("PREPARE TRANSACTION 'lost'")
        connection.execute("ROLLBACK PREPARED 'lost'")
        connection.execute("INSERT INTO goods VALUES (4, 'last')")
    events = captured.events_up_to_now()
    assert story(events) == [
        ["CREATE TABLE"],
        [("insert", "goods", {"id": b"2", "name": b"between"})],
        [("insert", "goods", {"id": b"1", "name": b"kept"})],
        ["ALTER TABLE"],
        [("insert", "goods", {"id": b"4", "name": b"last", "stock": b"5"})],
    ]
    assert [event.seq for event in events if isinstance(event, RowChanged)] == [1, 2, 3]
    assert_each_mark_stands_at_its_commit(events)
