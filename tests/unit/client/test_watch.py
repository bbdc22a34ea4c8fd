"""What `tidewire watch` shows of a change."""

import json

from rich.console import Console
from tidewire import Deleted, Initial, Inserted, Renewed, Replaced, Updated

from services.cli.watch_board import Board, Status
from services.cli.watch_lines import as_json, line_parts

COLUMNS = ("id", "name")
ROWS = (("1", "ann"), ("2", None))


def lines(change, columns=COLUMNS):
    return ["".join(text for text, _ in parts) for parts in line_parts(change, columns)]


def test_lines_say_what_became_of_each_row():
    assert lines(Initial(ROWS)) == ["= the result has 2 rows", "  id=1  name=ann", "  id=2  name=NULL"]
    assert lines(Inserted(ROWS[:1])) == ["+ id=1  name=ann"]
    assert lines(Updated((Replaced(("1", "ann"), ("1", "a\nb")),))) == ["~ id=1  name=ann→a\\nb"]
    assert lines(Renewed(ROWS, ROWS[:1], ROWS[1:], "why")) == [
        "= renewed: why",
        "- id=2  name=NULL",
        "+ id=1  name=ann",
    ]
    assert lines(Deleted(ROWS[:1]), ()) == ["- $1=1  $2=ann"]


def test_json_has_objects_by_name_or_arrays_where_names_are_not_unique():
    assert json.loads(as_json(Inserted(ROWS, "0/1"), COLUMNS)) == {
        "change": "inserted",
        "rows": [{"id": "1", "name": "ann"}, {"id": "2", "name": None}],
        "lsn": "0/1",
    }
    assert json.loads(as_json(Deleted(ROWS), ("x", "x")))["rows"] == [["1", "ann"], ["2", None]]
    pair = json.loads(as_json(Updated((Replaced(ROWS[0], ROWS[1]),)), COLUMNS))["rows"][0]
    assert (pair["old"]["id"], pair["new"]["id"]) == ("1", "2")


def drawn(board, now_s, *, height=24, trouble=None, rows=2):
    console = Console(width=100, record=True, force_terminal=True, color_system="truecolor", file=None, quiet=False)
    with console.capture() as captured:
        console.print(board.picture(now_s, Status(rows, "0/1A", trouble), height=height))
    return captured.get()


def plain(board, now_s, **more):
    console = Console(width=100)
    with console.capture() as captured:
        console.print(board.picture(now_s, Status(more.pop("rows", 2), "0/1A", more.pop("trouble", None)), **more))
    return captured.get()


def test_a_changed_cell_stands_out_and_fades_a_deleted_row_is_struck_and_goes():
    board = Board("SELECT  id,\n name FROM people", COLUMNS)
    board.take(Initial(ROWS), 0.0)
    quiet = drawn(board, 1.0)
    board.take(Updated((Replaced(("1", "ann"), ("1", "anna")),)), 10.0)
    fresh, old = drawn(board, 10.1), drawn(board, 20.0)
    assert "30;43m" in fresh and "30;43m" not in quiet + old  # black on yellow
    board.take(Deleted((("2", None),)), 20.0)
    struck = drawn(board, 20.1)
    assert "9;31m" in struck and "NULL" in struck and "NULL" not in drawn(board, 22.0)
    board.take(Inserted((("3", "cleo"),)), 30.0)
    assert "30;42m" in drawn(board, 30.1)
    assert "SELECT id, name FROM people" in plain(board, 30.2, height=24)


def test_of_many_rows_those_that_changed_last_are_shown_in_their_order():
    board = Board("SELECT", COLUMNS)
    board.take(Initial(tuple((str(number), "x") for number in range(100))), 0.0)
    board.take(Updated(tuple(Replaced((str(n), "x"), (str(n), "y")) for n in (90, 50, 70))), 5.0)
    picture = plain(board, 9.0, height=11, rows=100)
    assert [word for word in picture.split() if word in ("50", "70", "90")] == ["50", "70", "90"]
    assert "100 rows (3 that changed last are shown)" in picture


def test_the_footer_tells_rate_place_and_trouble():
    board = Board("SELECT", COLUMNS)
    board.take(Initial(ROWS), 0.0)
    for second in range(5):
        board.take(Inserted(((f"{second}", "n"),)), 10.0 + second)
    footer = plain(board, 14.5, height=24, trouble="the server closed the connection")
    assert "connecting again: the server closed the connection" in footer
    assert "1.0 changes/s" in footer and "LSN 0/1A" in footer
