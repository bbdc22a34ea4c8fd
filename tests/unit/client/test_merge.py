"""What a client holds after the messages is what the server holds: V31–V34, V42–V50, V53."""

from collections import Counter
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidewire.matching import Unplaceable
from tidewire.merge import Result, difference, whole
from tidewire.messages import Data, PartialData, PartialRow, Update

ID = UUID(int=7)
# Few values, so that rows are equal in columns that are no key: that is where a wrong conclusion would show.
VALUE = st.sampled_from([b"a", b"b", b"c", None])


@st.composite
def stories(draw):
    """A server's key (or none), and the states that a result goes through; most rows live on from one to the next."""
    columns = draw(st.integers(1, 4))
    rows = st.tuples(*[VALUE] * columns)
    key = tuple(sorted(draw(st.sets(st.integers(0, columns - 1)))))
    of = (lambda row: tuple(row[place] for place in key)) if key else None
    states = [draw(st.lists(rows, min_size=1, max_size=5, unique_by=of))]
    for _ in range(draw(st.integers(1, 6))):
        lives = [
            tuple(old if place in key else draw(st.one_of(st.just(old), VALUE)) for place, old in enumerate(row))
            for row in states[-1]
            if draw(st.integers(0, 9))
        ]
        more = draw(st.lists(rows, max_size=1))
        states.append(lives + [row for row in more if of is None or of(row) not in set(map(of, lives))])
    return columns, key, states


def messages(before, after, key, split):
    """What a server with this key sends: deletes, then partial rows and updates, then inserts."""
    came, went = difference(before, after)
    of = {tuple(row[place] for place in key): row for row in went} if key else {}
    updated = [(of[k], row) for row in came if (k := tuple(row[place] for place in key)) in of and key]
    came = [row for row in came if all(row is not new for _, new in updated)]
    went = [row for row in went if all(row is not old for old, _ in updated)]
    partial, full = [], []
    for number, (old, new) in enumerate(updated):
        if split[number % len(split)]:
            present = [place for place in range(len(new)) if place in key or old[place] != new[place]]
            partial.append(PartialRow(len(new), {place: new[place] for place in present}))
        else:
            full.append(new)
    made = [
        Data(ID, Update.DELETE, tuple(went)),
        PartialData(ID, tuple(partial)),
        Data(ID, Update.UPDATE, tuple(full)),
        Data(ID, Update.INSERT, tuple(came)),
    ]
    return [message for message in made if message.rows]


@given(stories(), st.lists(st.booleans(), min_size=1, max_size=5), st.booleans())
def test_the_merged_result_is_the_server_s_or_the_client_says_that_it_cannot_know(story, split, is_told):
    """A row is never replaced by guessing; a client that was told the key is never at a loss."""
    _, key, states = story
    result = Result(key if is_told else None)
    result.replace(states[0])
    for before, after in pairwise(states):
        try:
            for message in messages(before, after, key, split):
                result.apply(message)
        except Unplaceable:
            assert key and not is_told
            result.replace(after)
        assert Counter(result) == Counter(after)


@given(stories(), st.lists(st.booleans(), min_size=1, max_size=5))
def test_a_copy_goes_its_own_way(story, split):
    _, key, states = story
    result = Result(key)
    result.replace(states[0])
    ahead = result.copy()
    for message in messages(states[0], states[1], key, split):
        ahead.apply(message)
    assert (Counter(result), Counter(ahead)) == (Counter(states[0]), Counter(states[1]))


def test_a_key_is_learned_from_the_first_update_that_leaves_no_doubt():
    """As in `SELECT category, sum(…) … GROUP BY category`, which has no primary key to ask PostgreSQL for."""
    result = Result()
    result.replace([(b"tea", b"10"), (b"cup", b"20"), (b"pot", b"30")])
    result.update([whole((b"tea", b"11"))])
    # 20 is now the value of two rows: who had not learned would not know which one this replaces.
    assert result.update([whole((b"tea", b"20"))]) == [((b"tea", b"11"), (b"tea", b"20"))]
    assert list(result) == [(b"tea", b"20"), (b"cup", b"20"), (b"pot", b"30")]


def test_an_update_that_fits_two_rows_is_not_guessed():
    result = Result()
    result.replace([(b"tea", b"10"), (b"cup", b"20")])
    with pytest.raises(Unplaceable, match="key="):
        result.update([whole((b"tea", b"20"))])
    assert list(result) == [(b"tea", b"10"), (b"cup", b"20")]


def test_a_hint_that_turns_out_to_be_no_key_is_dropped():
    result = Result([1])
    result.replace([(b"1", b"x", b"p"), (b"2", b"x", b"q"), (b"3", b"x", b"r")])
    result.update([whole((b"2", b"x", b"s"))])
    assert list(result) == [(b"1", b"x", b"p"), (b"2", b"x", b"s"), (b"3", b"x", b"r")]


def test_swapped_values_of_one_batch_are_applied_at_once():
    result = Result([0])
    result.replace([(b"1", b"x"), (b"2", b"y")])
    result.update([whole((b"1", b"y")), whole((b"2", b"x"))])
    assert list(result) == [(b"1", b"y"), (b"2", b"x")]


@pytest.mark.parametrize(
    "message",
    [
        Data(ID, Update.DELETE, ((b"1", b"z"),)),
        Data(ID, Update.DELETE, ((b"1", b"x"), (b"1", b"x"))),
        Data(ID, Update.UPDATE, ((b"9", b"q"),)),
        PartialData(ID, (PartialRow(2, {1: b"q"}),)),
    ],
)
def test_what_does_not_fit_what_is_held_changes_nothing(message):
    result = Result([0])
    result.replace([(b"1", b"x"), (b"2", b"y")])
    with pytest.raises(Unplaceable):
        result.apply(message)
    assert list(result) == [(b"1", b"x"), (b"2", b"y")]
