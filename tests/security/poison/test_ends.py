"""A worker whose JVM ran out of memory ends at once and is back soon; the query that did it twice is kept out."""

import time

from proto.pgwire.live import Ack, Refused

ENDED_WITHIN_S = 60.0
BACK_WITHIN_S = 30.0
TOLD_WITHIN_S = 30.0
OUT_OF_MEMORY = "Terminating due to java.lang.OutOfMemoryError: Java heap space"
# A list of 2,000 texts of 2 MB each, four times the heap: nothing tells that before it is evaluated.
FILLS_THE_HEAP = "SELECT v.same, array_agg(w.wide) FROM victims v JOIN wide w ON v.same = w.id GROUP BY v.same"


def test_a_query_that_fills_the_heap_twice_is_quarantined(stack, neighbour):
    pids = stack.pids()
    with stack.hostile() as connection:
        connection.subscribe(FILLS_THE_HEAP)
        for number in (1, 2):
            stack.restart_recompute()
            assert stack.walk.processes["recompute"].wait(ENDED_WITHIN_S) == 1
            assert stack.log("recompute").count(OUT_OF_MEMORY) == number
        neighbour.change_s(BACK_WITHIN_S)  # starts it again, as a supervisor would
        words, until_s = "", time.monotonic() + TOLD_WITHIN_S
        while "under way when the worker ended, twice" not in words:
            message = connection.next_message(max(0.01, until_s - time.monotonic()))
            assert isinstance(message, Ack | Refused), message
            words = message.message if isinstance(message, Refused) else ""
        neighbour.change_s(5.0)
    assert stack.ended() == []
    assert {**stack.pids(), "recompute": None} == {**pids, "recompute": None}
