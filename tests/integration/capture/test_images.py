"""Each record's before and after equal what PostgreSQL shows of that row in the same transaction, byte for byte."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from psycopg import sql

from proto.pgoutput import PINNED_TEXT_SETTINGS
from proto.pgoutput.messages import ABSENT, Absent
from proto.streams.changes import BarrierPassed, RowChanged
from services.changelog import barrier
from tests.fixtures.capture import CapturedDatabase
from tests.fixtures.postgres import VERSIONS, start_postgres
from tests.integration.capture.literals import BuiltIn, built_in, scalars
from tests.integration.capture.tables import (
    Column,
    Deleted,
    History,
    Inserted,
    Step,
    Table,
    Updated,
    array_type,
    big_text,
    histories,
    scalar_type,
    steps,
)

pytestmark = pytest.mark.oracle
EXAMPLES = int(os.environ.get("ORACLE_EXAMPLES", "100"))
WITHIN_S = 60.0
KINDS_A_TABLE = 5
# The first version that tells whether a value is stored out of line.
TELLS_TOAST = 170000

Cell = bytes | Absent | None
Image = dict[str, Cell]


class Unchanged(Struct, frozen=True, eq=False):
    """A value that the log may leave out, where PostgreSQL does not tell whether it is stored out of line."""

    value: bytes | None

    def __eq__(self, other: object) -> bool:
        return other is ABSENT or other == self.value


class Change(Struct, frozen=True):
    operation: str
    before: Image | None
    after: Image | None


class Witness:
    """Does what a history says, and notes beside each statement how PostgreSQL shows the row."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._tells_toast = connection.info.server_version >= TELLS_TOAST
        for name, value in PINNED_TEXT_SETTINGS.items():
            connection.execute(sql.SQL("SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        connection.execute(
            """
            CREATE FUNCTION pg_temp.accepts(spelling text, literal text) RETURNS boolean LANGUAGE plpgsql AS $$
            BEGIN
                EXECUTE format('SELECT %L::%s', literal, spelling);
                RETURN true;
            EXCEPTION WHEN OTHERS THEN
                RETURN false;
            END $$
            """
        )

    def create(self, table: Table) -> None:
        run = self._connection.execute
        run(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(table.schema)))
        columns = []
        for number, column in enumerate(table.columns):
            made = sql.Identifier(table.schema, f"Тип {number}")
            if column.type.declaration is not None:
                run(sql.SQL(column.type.declaration).format(made))
            spelling = sql.SQL(column.type.spelling).format(made)
            key = sql.SQL(" PRIMARY KEY" if number == 0 and table.identity != "none" else "")
            columns.append(sql.SQL("{} {}{}").format(sql.Identifier(column.name), spelling, key))
        run(sql.SQL("CREATE TABLE {} ({})").format(table.place, sql.SQL(", ").join(columns)))
        if table.identity == "full":
            run(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(table.place))

    def drop(self, table: Table) -> None:
        self._connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(table.schema)))

    def perform(self, table: Table, steps: tuple[Step, ...]) -> list[Change]:
        """A statement that PostgreSQL refuses is rolled back to where it began, and changes nothing."""
        rows = _Rows(self._connection, table, self._accepted(table, steps), self._tells_toast)
        changes: list[Change] = []
        for step in steps:
            with suppress(psycopg.Error), self._connection.transaction():
                changes += rows.apply(step)
        return changes

    def _accepted(self, table: Table, steps: tuple[Step, ...]) -> frozenset[tuple[int, str]]:
        """Which literals the columns' types take; drawn ones need not be values."""
        drawn = list({(number, text) for step in steps for number, text in _literals(step) if text is not None})
        spellings = [
            sql.SQL(column.type.spelling)
            .format(sql.Identifier(table.schema, f"Тип {number}"))
            .as_string(self._connection)
            for number, column in enumerate(table.columns)
        ]
        answers = self._connection.execute(
            "SELECT pg_temp.accepts(s, l) FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY of(s, l, at) ORDER BY at",
            [[spellings[number] for number, _ in drawn], [text for _, text in drawn]],
        )
        return frozenset(literal for literal, (good,) in zip(drawn, answers, strict=True) if good)


def _literals(step: Step) -> Iterator[tuple[int, str | None]]:
    match step:
        case Inserted(row=row):
            yield from enumerate(row)
        case Updated(values=values):
            yield from values.items()


class _Rows:
    """The living rows of one table, by ctid."""

    def __init__(
        self, connection: psycopg.Connection, table: Table, accepted: frozenset[tuple[int, str]], tells_toast: bool
    ) -> None:
        self._connection, self._table, self._accepted = connection, table, accepted
        self._tells_toast = tells_toast
        self._living: list[str] = []
        self._names = [column.name for column in table.columns]
        self._list = sql.SQL(", ").join(map(sql.Identifier, self._names))

    def apply(self, step: Step) -> Iterator[Change]:
        match step:
            case Inserted(row=row):
                values = sql.SQL(", ").join(self._value(number, text) for number, text in enumerate(row))
                ctid, after = self._run("INSERT INTO {table} VALUES ({values}) RETURNING ctid, {list}", values=values)
                self._living.append(ctid)
                yield Change("insert", None, after)
            case Updated(place=place, values=values) if place < len(self._living):
                yield self._update(place, values)
            case Deleted(place=place) if place < len(self._living):
                at = sql.Literal(self._living[place])
                _, before = self._run("DELETE FROM {table} WHERE ctid = {at} RETURNING ctid, {list}", at=at)
                del self._living[place]
                yield Change("delete", self._known_of(before), None)

    def _update(self, place: int, values: dict[int, str | None]) -> Change:
        at = sql.Literal(self._living[place])
        _, before = self._run("SELECT ctid, {list} FROM {table} WHERE ctid = {at}", at=at)
        toasted = self._toasted(at)
        assignments = sql.SQL(", ").join(
            sql.SQL("{} = {}").format(sql.Identifier(self._names[number]), self._value(number, text))
            for number, text in values.items()
        )
        ctid, after = self._run(
            "UPDATE {table} SET {assignments} WHERE ctid = {at} RETURNING ctid, {list}", at=at, assignments=assignments
        )
        self._living[place] = ctid
        if self._table.identity != "key":
            return Change("update", before, after)
        key = self._names[0]
        known_before = self._known_of(before) if before[key] != after[key] else None
        for number, name in enumerate(self._names):
            if number not in values and number > 0:
                after[name] = self._untouched(name, after[name], toasted)
        return Change("update", known_before, after)

    def _untouched(self, name: str, value: bytes | None, toasted: frozenset[str] | None) -> Cell | Unchanged:
        if toasted is None:
            return Unchanged(value)
        return ABSENT if name in toasted else value

    def _toasted(self, at: sql.Literal) -> frozenset[str] | None:
        """The columns whose value stands outside of the row; None if this version does not tell."""
        if not self._tells_toast:
            return None
        chunks = sql.SQL(", ").join(
            sql.SQL("pg_column_toast_chunk_id({}) IS NOT NULL").format(sql.Identifier(name)) for name in self._names
        )
        query = sql.SQL("SELECT {} FROM {} WHERE ctid = {}").format(chunks, self._table.place, at)
        (outside,) = self._connection.execute(query).fetchall()
        return frozenset(name for name, is_outside in zip(self._names, outside, strict=True) if is_outside)

    def _known_of(self, row: Image) -> Image:
        """What a table's identity gives of an old row."""
        if self._table.identity != "key":
            return row
        return {name: value if name == self._names[0] else ABSENT for name, value in row.items()}

    def _value(self, number: int, text: str | None) -> sql.Composable:
        if text is None or (number, text) not in self._accepted:
            return sql.SQL("NULL")
        return sql.Literal(big_text(text) if self._table.columns[number].type.is_big else text)

    def _run(self, query: str, **parts: sql.Composable) -> tuple[str, Image]:
        """The row's place and its columns as the server sends them: the text of each type's output function."""
        cursor = self._connection.execute(sql.SQL(query).format(table=self._table.place, list=self._list, **parts))
        result = cursor.pgresult
        assert result is not None and result.ntuples == 1
        place, *values = (result.get_value(0, number) for number in range(result.nfields))
        assert place is not None
        return place.decode(), dict(zip(self._names, values, strict=True))


class Watched:
    """A captured database, the witness of what is done to it, and what comes out of its log."""

    def __init__(self, captured: CapturedDatabase) -> None:
        captured.start().wait_ready()
        self.connection = captured.connect(prepare_threshold=None)
        self.witness = Witness(self.connection)
        self._follower = captured.follow()

    def close(self) -> None:
        self._follower.close()
        self.connection.close()

    def check(self, history: History) -> list[Change]:
        """Perform it, wait until the log has reached it, and compare; return what was expected and found."""
        table = history.table
        try:
            if history.in_one_transaction:
                with self.connection.transaction():
                    self.witness.create(table)
                    expected = self.witness.perform(table, history.steps)
                    shape = self._shape(table)
            else:
                self.witness.create(table)
                with self.connection.transaction():
                    expected = self.witness.perform(table, history.steps)
                shape = self._shape(table)
        finally:
            rows = self._rows_up_to_now()
            with suppress(psycopg.errors.InvalidSchemaName):
                self.witness.drop(table)
        assert [_change(row) for row in rows] == expected
        assert {_shape_of(row) for row in rows} <= {shape}
        return expected

    def _rows_up_to_now(self) -> list[RowChanged]:
        barrier_id = barrier.emit(self.connection)
        rows: list[RowChanged] = []
        deadline = time.monotonic() + WITHIN_S
        passed = False
        while not passed:
            assert time.monotonic() < deadline, "the barrier did not come"
            for event in self._follower.read(0.2):
                passed |= isinstance(event, BarrierPassed) and event.barrier_id == barrier_id
                if isinstance(event, RowChanged):
                    rows.append(event)
        return rows

    def _shape(self, table: Table) -> tuple[object, ...]:
        columns = self.connection.execute(
            """
            SELECT attname::text, atttypid::int8, atttypmod FROM pg_attribute a
            JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = %s AND c.relname = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
            """,
            [table.schema, table.name],
        ).fetchall()
        identity = {"key": "d", "none": "f", "full": "f"}[table.identity]
        keyed = [identity == "f" or number == 0 for number in range(len(columns))]
        return (
            table.schema,
            table.name,
            identity,
            tuple((*column, key) for column, key in zip(columns, keyed, strict=True)),
        )


def _shape_of(row: RowChanged) -> tuple[object, ...]:
    relation = row.relation
    columns = tuple((of.name, of.type_oid, of.type_modifier, of.is_identity) for of in relation.columns)
    return relation.schema, relation.name, relation.identity, columns


def _change(row: RowChanged) -> Change:
    names = [column.name for column in row.relation.columns]
    before, after = (
        None if image is None else dict(zip(names, image, strict=True)) for image in (row.before, row.after)
    )
    return Change(row.operation, before, after)


@pytest.fixture
def watched(captured: CapturedDatabase) -> Iterator[Watched]:
    made = Watched(captured)
    yield made
    made.close()


@pytest.fixture
def watched_old(tmp_path: Path, captured_at) -> Iterator[Watched]:
    """The same on the oldest version that this machine has."""
    with start_postgres(tmp_path / "old", version=VERSIONS[0]) as server:
        made = Watched(captured_at(server.dsn))
        yield made
        made.close()


def bounded(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def check_any_table(watched: Watched, examples: int) -> None:
    @bounded(examples)
    @given(histories(built_in(watched.connection), max_columns=8))
    def images_equal_what_postgres_shows(history: History) -> None:
        watched.check(history)

    images_equal_what_postgres_shows()


def check_every_type(watched: Watched, examples: int) -> None:
    """A few types a table, each as itself and as an array, so that none is left to chance."""
    kinds = built_in(watched.connection)
    met: set[str] = set()
    for first in range(0, len(kinds), KINDS_A_TABLE):
        met |= check_types(watched, kinds[first : first + KINDS_A_TABLE], examples)
    assert met == {kind.name for kind in kinds}


def check_types(watched: Watched, kinds: Sequence[BuiltIn], examples: int) -> set[str]:
    """The types of which a value that is not NULL was compared."""
    met: set[str] = set()
    of_each = st.lists(st.tuples(*map(scalars, kinds)), min_size=8, max_size=8)

    @bounded(examples)
    @given(of_each, st.sampled_from(["key", "none", "full"]), st.booleans(), st.data())
    def images_equal_what_postgres_shows(
        values: list[tuple[str, ...]], identity: str, in_one_transaction: bool, data: st.DataObject
    ) -> None:
        table = table_of(kinds, identity)
        arrays = [None] * len(kinds)
        inserts = tuple(Inserted((str(number), *row, *arrays)) for number, row in enumerate(values))
        done = inserts + data.draw(steps(table, max_size=4))
        for change in watched.check(History(table=table, steps=done, in_one_transaction=in_one_transaction)):
            met.update(kind.name for kind in kinds if change.after and change.after[kind.name] is not None)

    images_equal_what_postgres_shows()
    return met


def table_of(kinds: Sequence[BuiltIn], identity: str) -> Table:
    """A key, a column of each type and one of its array."""
    return Table(
        schema="Ё every",
        name="type",
        identity=identity,
        columns=(
            Column("id", scalar_type(BuiltIn("int8", "b", "N", "", ","))),
            *(Column(kind.name, scalar_type(kind)) for kind in kinds),
            *(Column(f"{kind.name}[]", array_type(kind)) for kind in kinds),
        ),
    )


@pytest.mark.slow
def test_images_of_any_table_equal_what_postgres_shows(watched: Watched):
    check_any_table(watched, EXAMPLES)


@pytest.mark.slow
def test_images_of_every_built_in_type_equal_what_postgres_shows(watched: Watched):
    check_every_type(watched, max(2, EXAMPLES // 30))


@pytest.mark.slow
def test_images_of_any_table_of_the_oldest_version_equal_what_postgres_shows(watched_old: Watched):
    check_any_table(watched_old, max(1, EXAMPLES // 6))
    check_every_type(watched_old, 2)
