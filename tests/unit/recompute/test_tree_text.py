"""Node text is read whole or not at all; what is not understood is a value, never an exception."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.recompute.core.tree.nodes import NotUnderstood, Query, TargetEntry, Var
from services.recompute.core.tree.reading import MOST_CHARACTERS, MOST_DEPTH, read_tree
from services.recompute.core.tree.text import BadText, Datum, Listed, Node, read, word, written

VAR = (
    "{VAR :varno 1 :varattno 2 :vartype 23 :vartypmod -1 :varcollid 0 :varlevelsup 0 :varnosyn 1 :varattnosyn 2 "
    ":location 7}"
)
ENTRY = "{{TARGETENTRY :expr {} :resno 1 :resname {} :ressortgroupref 0 :resorigtbl 0 :resorigcol 0 :resjunk false}}"
QUERY = (
    "({{QUERY :commandType 1 :hasTargetSRFs false :hasDistinctOn false :hasRecursive false :hasRowSecurity false "
    ":cteList <> :rtable <> :jointree {{FROMEXPR :fromlist <> :quals <>}} :targetList ({}) :groupClause <> "
    ":groupingSets <> :havingQual <> :windowClause <> :distinctClause <> :sortClause <> :limitOffset <> "
    ":limitCount <> :limitOption 0 :rowMarks <> :setOperations <>}})"
)


def query(expression: str = VAR, name: str = "x") -> str:
    return QUERY.format(ENTRY.format(expression, name))


def test_a_node_is_read_with_its_fields_in_order():
    text = '{A :list (b 8 9) :names ("a" "b c") :value 4 [ 1 0 -1 0 ] :none <> :inner {B :x :y}}'
    assert read(text.replace("b c", "b\\ c")) == Node(
        "A",
        (
            ("list", Listed("b", ("8", "9"))),
            ("names", Listed("", ('"a"', '"b\\ c"'))),
            ("value", Datum("4", ("1", "0", "-1", "0"))),
            ("none", "<>"),
            ("inner", Node("B", (("x", ":y"),))),
        ),
    )


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("<>", None),
        ('""', ""),
        ('"a"', "a"),
        ("a\\ b", "a b"),
        ("\\<>", "<>"),
        ("\\\\", "\\"),
        ('\\"a', '"a'),
        ("\\7", "7"),
    ],
)
def test_a_word_says_what_outfuncs_escaped(token: str, said: str | None):
    assert word(token) == said


@pytest.mark.parametrize(
    "text",
    ["", "{", "}", "{A :x", "{A :x}", "{A x}", "(1 2", "{A :x 1 :x 2}", "{A :x 1} {B}", "(i 1 x)", "{A :x 4 [ 1 x ]}"],
)
def test_what_outfuncs_does_not_write_is_refused(text: str):
    with pytest.raises(BadText):
        read(text)
    assert isinstance(read_tree(text), NotUnderstood)


def test_a_query_is_read_into_types():
    tree = read_tree(query())
    assert isinstance(tree, Query)
    assert tree.targetList == (TargetEntry(Var(1, 2, 23, -1, 0, 0), 1, "x", 0, False),)


def test_a_name_that_looks_like_a_field_stays_a_name():
    tree = read_tree(query(name=":resjunk"))
    assert isinstance(tree, Query)
    assert tree.targetList[0].resname == ":resjunk"


def test_a_name_that_was_torn_apart_is_not_read_as_fields():
    """Such as a name with a blank that nobody escaped."""
    assert read_tree(query(name="x :resjunk true")) == NotUnderstood("text: :resjunk where a field should begin")


def test_an_unknown_node_is_a_value():
    tree = read_tree(query("{NEWEXPR :arg 1}"))
    assert isinstance(tree, Query)
    assert tree.targetList[0].expr == NotUnderstood("newexpr")


def test_a_node_without_a_field_that_counts_is_not_understood():
    tree = read_tree(query("{VAR :varno 1}"))
    assert isinstance(tree, Query)
    assert tree.targetList[0].expr == NotUnderstood("var without varattno")


def nested(depth: int) -> str:
    return "{NULLTEST :arg " * depth + VAR + " :nulltesttype 0 :argisrow false}" * depth


def test_nesting_has_a_limit_that_is_a_value_too():
    assert isinstance(read_tree(query(nested(MOST_DEPTH // 2))), Query)
    assert read_tree(query(nested(50_000))) == NotUnderstood(f"nesting deeper than {MOST_DEPTH}")
    assert written(read(nested(100_000))) == nested(100_000)


def test_length_has_a_limit_that_is_a_value_too():
    assert read_tree(query(name="x" * MOST_CHARACTERS)) == NotUnderstood(f"more than {MOST_CHARACTERS} characters")


def test_reading_takes_a_time_in_proportion_to_the_length():
    def seconds(width: int) -> float:
        text = QUERY.format(" ".join([ENTRY.format(VAR, "x")] * width))
        started_s = time.process_time()
        assert isinstance(read_tree(text), Query)
        return time.process_time() - started_s

    seconds(100)
    assert seconds(8_000) < 40 * max(seconds(800), 0.005)


@given(st.data())
def test_a_damaged_text_is_never_an_exception(data: st.DataObject):
    text = query()
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 30))
    inserted = data.draw(st.text('(){}[]<>:\\ "1x\n', max_size=6))
    found = read_tree(text[:at] + inserted + text[at + cut :])
    assert isinstance(found, Query | NotUnderstood)
