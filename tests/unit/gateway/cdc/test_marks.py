"""What DDL in the log leaves in doubt: a right, the parts of a table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.core.cdc.marks import (
    NOWHERE,
    Command,
    Doubt,
    Mark,
    Marks,
    Tree,
    command_of,
    doubt_of_right,
    judged,
)

ROOT, PART, OTHER, FOREIGN = 1, 2, 3, 99
TABLES = frozenset({ROOT})
REVOKE, GRANT = Command(tag="REVOKE", types=frozenset({"table"})), Command(tag="GRANT", types=frozenset({"table"}))
ALTER = Command(tag="ALTER TABLE", tables=frozenset({ROOT, PART}))
ATTACH = Command(tag="ALTER TABLE", tables=frozenset({ROOT, PART, OTHER}))
CREATE = Command(tag="CREATE TABLE", tables=frozenset({OTHER}), parents=TABLES)
DROP = Command(tag="DROP TABLE", tables=frozenset({PART}), types=frozenset({"table"}))
DROP_FOREIGN = Command(tag="DROP TABLE", tables=frozenset({FOREIGN}), types=frozenset({"table"}))
BLANK = Command(tag="DDL", is_blank=True)


def marked(*commands):
    """One transaction of two events each, from seq 11 on."""
    return [
        Mark(generation=number + 1, before=10 + 2 * number, after=12 + 2 * number, commands=(command,))
        for number, command in enumerate(commands)
    ]


def tree(*members, sure=True, generation=0, columns=("id",), wider=()):
    return Tree(
        generation=generation,
        members=frozenset(members),
        wider=frozenset(wider),
        family=frozenset(members) | TABLES,
        columns=frozenset(columns),
        has_parts=True,
        is_sure=sure,
    )


@pytest.mark.parametrize(
    ("commands", "doubt"),
    [
        ((), None),
        ((REVOKE,), None),
        ((GRANT,), None),
        ((GRANT, REVOKE), None),
        ((GRANT, GRANT), None),
        ((REVOKE, GRANT), Doubt(10, 14)),
        ((GRANT, REVOKE, ALTER, REVOKE), Doubt(12, 16)),
        ((ALTER, ALTER), Doubt(10, 14)),
        ((BLANK, BLANK), Doubt(10, 14)),
        ((REVOKE, DROP_FOREIGN, GRANT), Doubt(10, 16)),
        ((Command(tag="REVOKE", types=frozenset({"function"})), GRANT), None),
        ((Command(tag="ALTER TABLE", tables=frozenset({FOREIGN})), GRANT), None),
    ],
)
def test_a_right_is_in_doubt_where_it_may_have_been_lost_and_given_back(commands, doubt):
    assert doubt_of_right(marked(*commands), TABLES) == doubt


@pytest.mark.parametrize(
    ("known", "now", "commands", "members", "broken"),
    [
        (tree(PART), tree(PART), (), {PART}, NOWHERE),
        (tree(PART), tree(PART), (ALTER,), {PART}, NOWHERE),
        (tree(PART), tree(PART), (ALTER, ALTER), {PART}, 14),
        (tree(PART, sure=False), tree(PART), (ALTER,), {PART}, 12),
        (tree(PART), tree(PART), (DROP_FOREIGN, DROP_FOREIGN), {PART}, NOWHERE),
        (tree(PART), tree(PART, OTHER), (ATTACH,), {PART, OTHER}, 12),
        (tree(PART), tree(PART, OTHER), (CREATE,), {PART, OTHER}, NOWHERE),
        (tree(PART), tree(PART), (CREATE, Command(tag="DROP TABLE", types=frozenset({"table"}))), {PART}, 14),
        (tree(PART), tree(), (DROP,), set(), 12),
        (tree(PART), tree(), (Command(tag="ALTER TABLE", tables=TABLES),), set(), 12),
        (tree(PART), tree(), (BLANK,), set(), 12),
        # The catalog is ahead: what joined is not read yet, what left still is.
        (tree(PART), tree(PART, OTHER), (GRANT,), {PART}, NOWHERE),
        (tree(PART), tree(), (GRANT,), {PART}, NOWHERE),
        (tree(PART), tree(), (DROP_FOREIGN,), {PART}, NOWHERE),
        # Columns of a child may have become the table's.
        (tree(PART, wider=[PART]), tree(PART, wider=[PART], columns=("id", "v")), (ALTER,), {PART}, 12),
        (tree(PART), tree(PART, columns=("id", "v")), (ALTER,), {PART}, NOWHERE),
        # Nothing is known: any DDL that may have moved something counts.
        (None, tree(PART), (GRANT, CREATE, REVOKE), {PART}, 16),
        (None, tree(PART, OTHER), (GRANT, CREATE, REVOKE), {PART, OTHER}, NOWHERE),
        (None, tree(PART), (DROP_FOREIGN, GRANT), {PART}, 12),
        (None, tree(PART), (ALTER, GRANT), {PART}, 12),
    ],
)
def test_a_tree_is_told_as_the_log_has_it(known, now, commands, members, broken):
    found = judged(known, now, marked(*commands))
    assert (found.tree.members, found.broken) == (frozenset(members), broken)


def test_what_the_log_has_not_told_yet_is_looked_at_again():
    first = judged(tree(PART), tree(PART, OTHER, generation=1), marked(GRANT))
    assert first.is_ahead and not first.tree.is_sure
    then = judged(first.tree, tree(PART, OTHER, generation=2), [marked(GRANT, ATTACH)[1]])
    assert (then.tree.members, then.broken, then.is_ahead) == (frozenset({PART, OTHER}), 14, False)


def test_a_description_is_read_as_the_trigger_writes_it():
    found = command_of(
        b'{"tag": "CREATE TABLE", "objects": [{"type": "table", "oid": 3}, {"type": "parent", "oid": 1}]}'
    )
    assert (found.tables, found.parents, found.is_blank) == (frozenset({3}), TABLES, False)
    assert command_of(b'{"tag": "DDL", "objects": []}').is_blank
    assert not command_of(b'{"tag": "TIDEWIRE TRACK", "objects": []}').is_blank


@given(st.binary())
def test_what_cannot_be_read_may_be_anything(description):
    assert command_of(description).is_blank or description.startswith((b"{", b" ", b"\n", b"\t", b"\r"))


@given(st.lists(st.sampled_from([REVOKE, GRANT, ALTER, DROP]), max_size=40))
def test_marks_that_are_put_together_take_no_doubt_away(commands):
    every, few = marked(*commands), Marks(most=4)
    for mark in every:
        few.add(mark)
    whole, shortened = doubt_of_right(every, TABLES), doubt_of_right(few.since(0), TABLES)
    assert len(few) <= 5
    if whole is not None:
        assert shortened is not None and shortened.before <= whole.before and shortened.after >= whole.after
