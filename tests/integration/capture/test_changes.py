"""What is committed comes out of the log, once, in order."""

from proto.streams.changes import Committed, HistoryBegan, RowChanged, Truncated
from tests.fixtures.capture import CapturedDatabase


def test_what_is_committed_comes_out_in_commit_order_and_what_is_rolled_back_does_not(captured: CapturedDatabase):
    captured.start().wait_ready()
    with captured.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY, name text)")
        with connection.transaction():
            connection.execute("INSERT INTO goods VALUES (1, 'tea'), (2, NULL)")
            connection.execute("SAVEPOINT here")
            connection.execute("INSERT INTO goods VALUES (3, 'lost')")
            connection.execute("ROLLBACK TO here")
        connection.execute("BEGIN; DELETE FROM goods; ROLLBACK")
        connection.execute("UPDATE goods SET id = 4 WHERE id = 2")
        connection.execute("DELETE FROM goods WHERE id = 1")
        connection.execute("TRUNCATE goods")
    events = captured.events_up_to_now()
    changes = [
        (event.seq, event.operation, event.before, event.after) for event in events if isinstance(event, RowChanged)
    ]
    absent = changes[2][2][1]
    assert changes == [
        (1, "insert", None, (b"1", b"tea")),
        (2, "insert", None, (b"2", None)),
        (3, "update", (b"2", absent), (b"4", None)),
        (4, "delete", (b"1", absent), None),
    ]
    assert [event.seq for event in events if isinstance(event, Truncated)] == [5]
    assert isinstance(events[0], HistoryBegan) and events[0].because == "first_start"
    commits = [event.commit_lsn for event in events if isinstance(event, Committed)]
    assert commits == sorted(set(commits))


def test_a_capture_that_is_told_to_stop_ends_with_zero_and_loses_nothing(captured: CapturedDatabase):
    first = captured.start().wait_ready()
    with captured.connect() as connection:
        connection.execute("CREATE TABLE goods (id int PRIMARY KEY)")
        connection.execute("INSERT INTO goods SELECT generate_series(1, 10000)")
        assert first.terminate() == 0
        connection.execute("INSERT INTO goods SELECT generate_series(10001, 20000)")
    captured.start().wait_ready()
    events = captured.events_up_to_now()
    rows = [(event.seq, event.after) for event in events if isinstance(event, RowChanged)]
    assert rows == [(number, (str(number).encode(),)) for number in range(1, 20001)]
