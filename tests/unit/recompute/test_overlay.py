"""Base and overlay together are the table, whatever happens to it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.pgoutput.messages import ABSENT, Column, Relation
from proto.streams.changes import RowChanged, Truncated
from services.recompute.core import catalog
from services.recompute.core.multiset_overlay import MultisetOverlay
from services.recompute.core.overlay import Overlay
from services.recompute.core.row_changes import Diverged

INT, TEXT = catalog.PgType(23, "int4"), catalog.PgType(25, "text")
NAMES = ("id", "v", "large")


def table(key):
    columns = tuple(catalog.Column(name=name, type=INT if name == "id" else TEXT) for name in NAMES)
    return catalog.Table(oid=1, schema="public", name="t", columns=columns, key=key)


def relation(identity, order=NAMES):
    columns = tuple(Column(name, 25, -1, identity == "f" or name == "id") for name in order)
    return Relation(1, "public", "t", identity, columns)


def changed(operation, before, after, identity):
    shape = relation(identity)
    return RowChanged(
        seq=1, commit_lsn=1, ordinal=0, xid=5, commit_time_us=0, relation=shape, operation=operation, before=before,
        after=after,
    )  # fmt: skip


def truncated(identity):
    return Truncated(
        seq=1, commit_lsn=1, ordinal=0, xid=5, commit_time_us=0, relation=relation(identity), cascade=False,
        restart_identity=False,
    )  # fmt: skip


class Model:
    """A table, its log, and the replica that follows the log: a base as a list of rows, and a layer."""

    def __init__(self, layer, rows, identity):
        self.layer, self.identity = layer, identity
        self.rows, self.base = list(rows), list(rows)
        self.frozen = None
        self.told = Counter(rows)

    def insert(self, row):
        if self.is_keyed and any(other[0] == row[0] for other in self.rows):
            return
        self.rows.append(row)
        self.layer.change(changed("insert", None, row, self.identity))

    def update(self, at, row, *, keeps_large):
        if not self.rows:
            return
        old = self.rows[at % len(self.rows)]
        row = (*row[:2], old[2]) if keeps_large else row
        if self.is_keyed and row[0] != old[0] and any(other[0] == row[0] for other in self.rows):
            return
        self.rows.remove(old)
        self.rows.append(row)
        if self.identity == "f":
            self.layer.change(changed("update", old, row, "f"))
            return
        before = (old[0], None, None) if row[0] != old[0] else None
        self.layer.change(changed("update", before, (*row[:2], ABSENT) if keeps_large else row, "d"))

    def delete(self, at):
        if not self.rows:
            return
        old = self.rows.pop(at % len(self.rows))
        before = old if self.identity == "f" else (old[0], None, None)
        self.layer.change(changed("delete", before, None, self.identity))

    def truncate(self):
        self.rows = []
        self.layer.change(truncated(self.identity))

    def freeze(self):
        self.resolve()
        self.layer.freeze()
        self.frozen = self.view()

    def rebase(self):
        if self.frozen is not None and self.layer.rebase():
            self.base = self.frozen
        self.frozen = None

    def resolve(self):
        asked = self.layer.unresolved()
        if not asked:
            return
        if self.is_keyed:
            self.layer.resolve([((row[0],), row) for row in self.base if (row[0],) in asked])
        else:
            self.layer.resolve([(row, self.base.count(row)) for row in asked])

    def view(self):
        hidden = set(self.layer.hidden())
        shown = [row for row in self.base if (row[:1] if self.is_keyed else row) not in hidden]
        return [*([] if self.layer.hides_base else shown), *self.layer.added()]

    def check(self):
        self.resolve()
        assert Counter(self.view()) == Counter(self.rows)
        self.check_changes()

    def check_changes(self):
        """What was told, with the changes, is what is there."""
        changes = self.layer.changes()
        told = Counter() if changes.emptied else self.told
        if self.is_keyed:
            told = Counter({row: 1 for row in told if row[:1] not in changes.keys})
        told.update(dict(changes.rows))
        self.told = Counter({row: count for row, count in told.items() if count})
        assert self.told == Counter(self.rows)
        self.layer.clear_changes()

    @property
    def is_keyed(self):
        return isinstance(self.layer, Overlay)


KEYED = st.tuples(st.sampled_from([b"1", b"2", b"3", b"4", b"5"]), *(st.sampled_from([None, b"a", b"b"]),) * 2)
STEPS = st.one_of(
    st.tuples(st.just("insert"), KEYED),
    st.tuples(st.just("update"), st.integers(0, 9), KEYED, st.booleans()),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.sampled_from([("truncate",), ("freeze",), ("rebase",), ("check",), ("check",)]),
)


def play(model, steps):
    for name, *arguments in steps:
        if name == "update":
            at, row, keeps_large = arguments
            model.update(at, row, keeps_large=keeps_large)
        else:
            getattr(model, name)(*arguments)
    model.check()


@pytest.mark.parametrize("identity", ["d", "f"])
@given(base=st.lists(KEYED, unique_by=lambda row: row[0]), steps=st.lists(STEPS, max_size=40), in_memory=st.booleans())
def test_a_table_with_a_key_is_its_base_under_its_overlay(identity, base, steps, in_memory):
    layer = Overlay(table((0,)), (0,))
    if in_memory:
        layer.hold(base)
    play(Model(layer, base, identity), steps)


@given(base=st.lists(KEYED), steps=st.lists(STEPS, max_size=40), in_memory=st.booleans())
def test_a_table_without_a_key_is_its_base_with_what_came_and_went(base, steps, in_memory):
    layer = MultisetOverlay(table(()))
    if in_memory:
        layer.hold(base)
    play(Model(layer, base, "f"), steps)


def test_columns_stand_where_the_relation_has_them():
    layer = Overlay(table((0,)), (0,))
    event = RowChanged(
        seq=1, commit_lsn=1, ordinal=0, xid=5, commit_time_us=0, relation=relation("d", ("x", "large", "v", "id")),
        operation="insert", before=None, after=(b"?", b"l", b"v", b"1"),
    )  # fmt: skip
    layer.change(event)
    assert layer.added() == [(b"1", b"v", b"l")]


@pytest.mark.parametrize(
    "event",
    [
        changed("insert", None, (b"1", None, None), "d"),
        changed("delete", (b"2", None, None), None, "d"),
        changed("update", None, (b"2", None, ABSENT), "d"),
    ],
    ids=["there already", "gone", "never there"],
)
def test_what_does_not_fit_the_rows_is_a_divergence(event):
    layer = Overlay(table((0,)), (0,))
    layer.hold([(b"1", None, None)])
    with pytest.raises(Diverged):
        layer.change(event)


def test_a_row_that_the_base_has_not_cannot_go():
    layer = MultisetOverlay(table(()))
    layer.change(changed("delete", (b"1", None, None), None, "f"))
    with pytest.raises(Diverged):
        layer.resolve([((b"1", None, None), 0)])


def test_a_table_named_by_another_index_than_its_key_diverges():
    layer = Overlay(table((0, 1)), (0, 1))
    with pytest.raises(Diverged):
        layer.change(changed("delete", (b"1", None, None), None, "i"))
