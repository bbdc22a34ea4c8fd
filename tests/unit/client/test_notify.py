"""The Python client of the NOTIFY door: what a message does to the rows, and when they are fetched (P35)."""

import json

import pytest
from tidewire.notify import NotifyRows


def delta(seq, inserted=(), deleted=(), gen=1):
    return json.dumps({"query_id": "q", "seq": seq, "gen": gen, "inserted": list(inserted), "deleted": list(deleted)})


def result(seq, rows, gen=1):
    return json.dumps({"query_id": "q", "gen": gen, "seq": seq, "rows": list(rows)})


@pytest.fixture
def held():
    made = NotifyRows()
    assert made.take('{"type":"subscribed","query_id":"q"}')
    assert not made.fetched(result(5, [{"id": 1}]))
    return made


def test_deltas_are_applied_in_their_order(held):
    assert not held.take(delta(6, [{"id": 2}], [{"id": 1}]))
    assert (held.rows, held.seq, held.is_current) == ([{"id": 2}], 6, True)


def test_what_the_result_has_already_is_not_applied_again(held):
    assert not held.take(delta(5, [{"id": 9}]))
    assert held.rows == [{"id": 1}]


@pytest.mark.parametrize(
    "message",
    [
        delta(8, [{"id": 2}]),
        delta(6, [{"id": 2}], gen=2),
        '{"type":"overflow","query_id":"q","seq":6,"gen":1,"fetch":true}',
        '{"type":"invalidated","query_id":"q","seq":6,"gen":1}',
    ],
    ids=["a gap", "another gen", "an overflow", "an invalidation"],
)
def test_p35_whatever_does_not_follow_is_fetched(held, message):
    assert held.take(message)
    assert not held.is_current
    assert held.take(delta(9, [{"id": 3}])) is True
    assert not held.fetched(result(8, [{"id": 2}], gen=json.loads(message)["gen"])) or not held.is_current


def test_messages_that_came_while_fetching_go_on_behind_the_result(held):
    assert held.take(delta(8, [{"id": 2}]))
    assert held.take(delta(9, [{"id": 3}]))
    assert not held.fetched(result(8, [{"id": 1}, {"id": 2}]))
    assert (held.rows, held.seq) == ([{"id": 1}, {"id": 2}, {"id": 3}], 9)


def test_p35_a_new_connection_is_fetched_and_the_rows_stay_until_then(held):
    assert held.take('{"type":"subscribed","query_id":"q"}')
    assert (held.rows, held.is_current) == ([{"id": 1}], False)
    assert not held.fetched(result(9, [{"id": 7}]))
    assert (held.rows, held.seq) == ([{"id": 7}], 9)


def test_an_old_result_is_fetched_again(held):
    assert held.take(delta(8, [{"id": 2}]))
    assert held.fetched(result(6, [{"id": 1}]))
    assert not held.is_current


def test_numbers_keep_their_digits(held):
    held.take('{"query_id":"q","seq":6,"gen":1,"inserted":[{"n":0.10000000000000000001}],"deleted":[]}')
    held.take('{"query_id":"q","seq":7,"gen":1,"inserted":[],"deleted":[{"n":0.1}]}')
    assert [str(row["n"]) for row in held.rows if "n" in row] == ["0.10000000000000000001"]
